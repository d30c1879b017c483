"""NCSN: scores against those of a Gaussian mixture convolved with the noise, and shares of modes far apart."""

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import UsageError
from deepcanon.models.scores.noise_conditional_score import NoiseConditionalScore

MEANS = torch.tensor([[-4.0, 0.0], [4.0, 2.0]])
SHARES = torch.tensor([0.8, 0.2])


def mixture(noise: float = 0.0, width: float = 0.5) -> MixtureSameFamily:
    """Two modes far apart, convolved with Gaussian noise."""
    spread = torch.full((2, 2), math.hypot(width, noise))
    return MixtureSameFamily(Categorical(SHARES), Independent(Normal(MEANS, spread), 1))


def exact_score(x: Tensor, noise: float) -> Tensor:
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(mixture(noise).log_prob(x).sum(), x)
    return gradient


def reached(model: NoiseConditionalScore) -> float:
    """The standard deviation that Langevin steps with the exact scores of one Gaussian mode reach: its recursion."""
    variance = 100.0
    for sigma in (model.noises / model.to_standard.scale).tolist():
        size = model.step_size * sigma**2
        for _ in range(model.langevin_steps):
            variance = variance * (1 - 0.5 * size / (0.5**2 + sigma**2)) ** 2 + size
    return math.sqrt(variance)


@pytest.fixture(scope="module")
def trained() -> NoiseConditionalScore:
    torch.manual_seed(0)
    model = NoiseConditionalScore(2, hidden=(64, 64), noise_levels=10, least_noise=0.1, average=0.99)
    x = mixture().sample(torch.Size([5000]))
    dc.fit(model, dc.from_tensors(x), steps=1200, batch_size=256, lr=5e-3, quiet=True)
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 3, 6, 9])
def test_it_learns_the_score_of_the_data_convolved_with_each_noise(trained: NoiseConditionalScore, level: int) -> None:
    torch.manual_seed(1)
    noise = float(trained.noises[level] / trained.to_standard.scale)
    x = mixture(noise).sample(torch.Size([2000]))
    wanted = exact_score(x, noise)
    with torch.no_grad():
        error = (trained.score(x, level) - wanted).square().sum() / wanted.square().sum()
    assert error < 0.05


@pytest.mark.slow
def test_annealed_langevin_gives_modes_far_apart_their_shares(trained: NoiseConditionalScore) -> None:
    """At the last level alone they stay divided as by the start, half and half."""
    drawn = trained.sample(4000, generator=Generator().manual_seed(0))
    assert abs(float((drawn[:, 0] < 0).double().mean()) - 0.8) < 0.05
    left = drawn[drawn[:, 0] < 0]
    assert torch.allclose(left.mean(0), MEANS[0], atol=0.1)
    assert torch.allclose(left.std(0), torch.full((2,), reached(trained)), rtol=0.05)
    x = (0.5 * MEANS.sum(0) + 4 * torch.randn(4000, 2, generator=Generator().manual_seed(0))).clone()
    size = trained.step_size * trained.sigma.square()
    with torch.no_grad():
        for _ in range(200):
            x = x + 0.5 * size * trained.score(x) + size.sqrt() * torch.randn_like(x)
    assert float((x[:, 0] < 0).double().mean()) < 0.7


def test_without_a_network_it_is_the_score_of_a_gaussian_with_noise() -> None:
    model = NoiseConditionalScore(2, hidden=(4,)).double()
    for name, weights in model.averaged.net.named_buffers():
        if name.startswith("last.2"):
            weights.zero_()
    model.to_standard.set(torch.tensor(0.5), torch.tensor([-0.5, 1.0]))
    x = torch.randn(5, 2, dtype=torch.float64)
    mean, variance = torch.tensor([1.0, -2.0]), 4 * (1 + model.noises[7].square())
    assert torch.allclose(model.score(x, 7), -(x - mean) / variance, atol=1e-12)


@pytest.mark.slow
def test_it_keeps_the_laws_of_score_models() -> None:
    torch.manual_seed(0)
    found = laws.check(NoiseConditionalScore, "score")
    assert all(outcome.holds for outcome in found), laws.report(found)


def test_levels_fall_in_equal_ratios_and_wrong_ones_are_refused() -> None:
    model = NoiseConditionalScore(1, noise_levels=4, most_noise=8.0, least_noise=1.0)
    assert torch.allclose(model.noises, torch.tensor([8.0, 4.0, 2.0, 1.0]))
    with pytest.raises(UsageError, match="noise levels fall from most_noise"):
        NoiseConditionalScore(1, most_noise=0.1, least_noise=0.2)
