"""Each law of continuous densities is shown a density that breaks it; a Gaussian keeps them all."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Terms, UsageError
from deepcanon.laws import continuous as laws
from deepcanon.laws import report
from deepcanon.laws.outcome import Law


class Plain(nn.Module):
    """A Gaussian, not a deepcanon model."""

    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(0.5, 2, size))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, size))

    mean: Tensor
    scale: Tensor

    @classmethod
    def example(cls, size: int = 2) -> tuple["Plain", Batch]:
        return cls(size), Batch(torch.randn(32, size, generator=Generator().manual_seed(0)) + 1)

    def log_prob(self, x: Tensor) -> Tensor:
        z = (x - self.mean) / self.scale
        return -(0.5 * z.square() + self.scale.log() + 0.5 * math.log(2 * math.pi)).sum(-1)

    def score(self, x: Tensor) -> Tensor:
        return -(x - self.mean) / self.scale**2

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return self.mean + self.scale * torch.randn(n, len(self.mean), generator=generator, dtype=self.mean.dtype)

    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x).mean()}


def fails(law: Law, cls: Any) -> bool:
    found = law(*cls.example())
    assert found is not None
    return not found.holds


@pytest.mark.parametrize(("size", "count"), [(1, 5), (2, 5), (5, 4)])
def test_a_gaussian_keeps_the_laws(size: int, count: int) -> None:
    found = laws.check_continuous(*Plain.example(size))
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == count


class ForgetsTheConstant(Plain):
    def log_prob(self, x: Tensor) -> Tensor:
        return super().log_prob(x) + math.log(2 * math.pi)


class ForgetsTheScale(Plain):
    """The change of variables lacks its volume."""

    def log_prob(self, x: Tensor) -> Tensor:
        return super().log_prob(x) + self.scale.log().sum()


class LogOfTheVariance(Plain):
    def log_prob(self, x: Tensor) -> Tensor:
        return super().log_prob(x) - self.scale.log().sum()


def test_a_density_without_its_constant_is_caught() -> None:
    for mutant in (ForgetsTheConstant, ForgetsTheScale, LogOfTheVariance):
        assert fails(laws.density_integrates_to_one, mutant), mutant


class GradientOfTheDensity(Plain):
    """The gradient of the density, not of its logarithm."""

    def score(self, x: Tensor) -> Tensor:
        return super().score(x) * self.log_prob(x).exp().unsqueeze(-1)


class Uphill(Plain):
    def score(self, x: Tensor) -> Tensor:
        return -super().score(x)


def test_a_wrong_score_is_caught() -> None:
    for mutant in (GradientOfTheDensity, Uphill):
        assert fails(laws.score_is_the_gradient_of_the_log_density, mutant), mutant


class SamplesTooWide(Plain):
    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return self.mean + 1.2 * (super().sample(n, generator=generator) - self.mean)


class SamplesElsewhere(Plain):
    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return super().sample(n, generator=generator) + 0.2


def test_samples_of_another_density_break_steins_identity() -> None:
    for mutant in (SamplesTooWide, SamplesElsewhere):
        assert fails(laws.steins_identity_holds_on_own_samples, mutant), mutant


class RewardsBadFit(Plain):
    """The loss has the sign of the log-likelihood."""

    def loss(self, batch: Batch) -> Terms:
        return {"nll": self.log_prob(batch.x).mean()}


class SumOverFeaturesOnly(Plain):
    def log_prob(self, x: Tensor) -> Tensor:
        return super().log_prob(x).unsqueeze(-1).expand(-1, 2)


def test_a_wrong_loss_and_a_wrong_shape_are_caught() -> None:
    assert fails(laws.loss_is_the_negative_log_likelihood, RewardsBadFit)
    assert fails(laws.log_densities_are_numbers, SumOverFeaturesOnly)


def test_the_kind_needs_its_method_and_real_numbers() -> None:
    with pytest.raises(UsageError, match="has log_prob"):
        laws.check_continuous(nn.Linear(1, 1), Batch(torch.zeros(1, 1)))
    with pytest.raises(UsageError, match="real numbers"):
        laws.check_continuous(Plain(), Batch(torch.zeros(1, 2, dtype=torch.long)))
