"""A conditional game on the engine: its samples, metrics and laws follow the context."""

from typing import Any

import torch

import deepcanon as dc
from deepcanon.core import Labeled
from deepcanon.models.adversarial.conditional_gan import ConditionalGAN


def test_a_conditional_game_is_measured_in_the_contexts_of_the_data() -> None:
    torch.manual_seed(0)
    y = torch.arange(32) % 3
    x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) + 10 * y.unsqueeze(1)
    model, batch = ConditionalGAN(features=2, classes=3, latent=2, hidden=(8,)), Labeled(x, y)
    dc.fit(model, dc.data.of(batch.x, batch.y), steps=3, batch_size=16, quiet=True)
    with_class: Any = model.generator[0]
    net = with_class.net
    with torch.no_grad():  # a generator that gives each class a place of its own, and no noise
        for parameter in net.parameters():
            parameter.zero_()
        first, last = net[0], net[-1]
        first.weight[:3, 2:] = torch.eye(3)
        last.weight[:, 1:3] = torch.tensor([[10.0, 20.0], [10.0, 20.0]])
        rescale: Any = model.generator[1]
        rescale.set(torch.tensor(1.0), torch.zeros(2))
    torch.testing.assert_close(model.given(2).sample(2), torch.full((2, 2), 20.0))
    right = model.metrics(batch)["energy_distance"]
    wrong = model.metrics(Labeled(batch.x, torch.zeros_like(batch.y)))["energy_distance"]
    assert float(right) < 1 < 10 < float(wrong)
    assert abs(dc.evaluate(model, batch)["energy_distance"]) < 1
