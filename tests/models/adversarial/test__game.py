"""A conditional game on the engine: its samples, metrics and laws follow the context."""

from typing import Any, Self

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot, softplus

import deepcanon as dc
from deepcanon.core import ClassConditional, Labeled, Terms
from deepcanon.models.adversarial._game import NoiseGame
from deepcanon.nn.dense import dense


class ConditionalGAN(ClassConditional, NoiseGame[Labeled]):
    """A GAN whose generator and discriminator are told the class (Mirza and Osindero, 2014)."""

    def __init__(self, features: int, classes: int) -> None:
        networks = dense(2 + classes, features, (8,)), dense(features + classes, 1, (8,))
        super().__init__(features, 2, 1, networks[0], networks[1])
        self.classes = classes

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        y = torch.arange(32) % 3
        x = torch.randn(32, 2, generator=Generator().manual_seed(0)) + 10 * y.unsqueeze(1)
        return cls(2, 3), Labeled(x, y)

    def discriminate(self, x: Tensor) -> Tensor:
        rescale, net = self.discriminator
        value: Tensor = net(self._told(rescale(x)))
        return value.squeeze(-1)

    def _sample(self, n: int, generator: Generator | None = None) -> Tensor:
        fake: Tensor = self.generator(self._told(torch.randn(n, self.latent, generator=generator)))
        return fake

    def discriminator_loss(self, batch: Labeled) -> Terms:
        model = self.given(batch.y)
        fake = model._sample(len(batch)).detach()
        return {
            "real": softplus(-model.discriminate(batch.x)).mean(),
            "fake": softplus(model.discriminate(fake)).mean(),
        }

    def loss(self, batch: Labeled) -> Terms:
        model = self.given(batch.y)
        return {"generator": softplus(-model.discriminate(model._sample(len(batch)))).mean()}

    def _told(self, rows: Tensor) -> Tensor:
        labels = self._context(len(rows))
        assert isinstance(labels, Tensor)
        return torch.cat([rows, one_hot(labels, self.classes).to(rows)], 1)


def test_a_conditional_game_is_measured_in_the_contexts_of_the_data() -> None:
    torch.manual_seed(0)
    model, batch = ConditionalGAN.example()
    dc.fit(model, dc.data.of(batch.x, batch.y), steps=3, batch_size=16, quiet=True)
    net: Any = model.generator[0]
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
