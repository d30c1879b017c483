"""The DCGAN: its networks by hand, its units, its normalizations, and samples of digits."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, nn

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.data import load_data
from deepcanon.models.adversarial.dcgan import DCGAN
from deepcanon.train import fit


def test_both_networks_and_their_gradients_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    model = DCGAN(channels=2, height=9, width=8, latent=3, hidden=(4, 6)).double()
    g, d = (dict(net.named_parameters()) for net in (model.generator[0], model.discriminator[1]))
    z = torch.randn(5, 3, dtype=torch.float64)
    h = (z @ g["0.weight"].T).view(5, 6, 2, 2)
    h = F.batch_norm(h, None, None, g["2.weight"], g["2.bias"], training=True).relu()
    h = F.conv_transpose2d(h, g["4.weight"], None, 2, 1)
    h = F.batch_norm(h, None, None, g["5.weight"], g["5.bias"], training=True).relu()
    fake = F.conv_transpose2d(h, g["7.weight"], g["7.bias"], 2, 1, (1, 0)).tanh()
    torch.testing.assert_close(model.generator(z), fake)
    h = F.leaky_relu(F.conv2d(fake, d["0.weight"], d["0.bias"], 2, 1), 0.2)
    h = F.batch_norm(F.conv2d(h, d["2.weight"], None, 2, 1), None, None, d["3.weight"], d["3.bias"], training=True)
    logits = F.leaky_relu(h, 0.2).flatten(1) @ d["6.weight"].T + d["6.bias"]
    found = model.discriminate(model.generator(z))
    torch.testing.assert_close(found, logits.squeeze(1))
    parameters = [*g.values(), *d.values()]
    gradients, wanted = (torch.autograd.grad(each.square().sum(), parameters) for each in (found, logits))
    torch.testing.assert_close(gradients, wanted)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 10), (1, 28, 28), (2, 4, 5)])
def test_samples_have_the_shape_and_the_range_of_the_data(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    model = DCGAN(*shape, hidden=(4, 8)).eval()
    model.prepare([Batch(torch.rand(5, *shape) + 3), Batch(torch.full((1, *shape), 7.0))])
    x = model.sample(6, generator=Generator().manual_seed(0))
    assert x.shape == (6, *shape)
    assert 3 < x.min() < x.max() < 7
    scale: Any = model.discriminator[0]
    torch.testing.assert_close(scale(torch.tensor([[7.0]])), torch.tensor([[1.0]]))
    torch.testing.assert_close(model.discriminate(x.flatten(1)), model.discriminate(x))


def test_with_spectral_normalization_the_discriminator_is_not_steep() -> None:
    """Each 4x4 convolution of stride 2 covers a pixel four times, so that its slope is at most 2, its weight's 1."""
    torch.manual_seed(0)
    model = DCGAN(1, 8, 8, hidden=(8, 8), normalization="spectral").double()
    with torch.no_grad():
        for parameter in model.discriminator.parameters():
            parameter.mul_(50)
    for _ in range(1000):
        model.constrain()
    net: Any = model.discriminator[1]
    weights = [layer.weight.detach().flatten(1) for layer in net if hasattr(layer, "weight")]
    assert all(abs(float(torch.linalg.matrix_norm(weight, 2)) - 1) < 1e-3 for weight in weights)
    x = torch.randn(20, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(model.discriminate(x).sum(), x)
    assert float(slope.flatten(1).norm(dim=1).max()) <= 4.0
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in net)


def test_with_one_critic_step_both_players_move_at_every_step() -> None:
    for critic_steps, moves in ((1, 4), (2, 2)):
        torch.manual_seed(0)
        model = DCGAN(1, 4, 4, latent=2, hidden=(4,), critic_steps=critic_steps)
        turns = {turn.name: sum(turn.due(step, 4) for step in range(1, 5)) for turn in model.turns()}
        assert turns == {"discriminator": 4, "generator": moves}


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="halves images of 8x8 pixels; give from 1 to 3"):
        DCGAN(1, 8, 8, hidden=(4, 4, 4, 4))
    with pytest.raises(UsageError, match="normalization must be one of batch, spectral"):
        DCGAN(1, 8, 8, normalization="layer")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"images of shape \(1, 8, 8\)"):
        DCGAN(1, 8, 8).discriminate(torch.zeros(2, 1, 7, 8))


@pytest.mark.slow
def test_its_samples_come_close_to_held_out_digits() -> None:
    data = load_data("digits")
    torch.manual_seed(0)
    model = DCGAN(1, 8, 8, latent=16, hidden=(16, 32))
    test = data.split("test")
    model.prepare([data.train])
    before = model.metrics(test)["energy_distance"].item()
    result = fit(model, data, quiet=True, seed=0, epochs=16, lr=2e-3)
    assert before > 1
    assert result.test["energy_distance"] < 0.1
