"""Each law of samplers is shown a sampler that breaks it; one that draws from its density keeps them."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from deepcanon.core import Batch, UsageError, draw
from deepcanon.laws import report
from deepcanon.laws import sampler as laws
from deepcanon.laws.outcome import Law


class Mixture(nn.Module):
    """Two Gaussians of unequal shares."""

    shares = (0.3, 0.7)

    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.size = size

    @classmethod
    def example(cls, size: int = 2) -> tuple["Mixture", Batch]:
        return cls(size), Batch(torch.randn(16, size, generator=Generator().manual_seed(0)))

    def density(self, shares: tuple[float, float]) -> MixtureSameFamily:
        means = torch.tensor([[-2.0] * self.size, [1.0] * self.size], dtype=torch.float64)
        parts = Independent(Normal(means, torch.full_like(means, 0.6)), 1)
        return MixtureSameFamily(Categorical(torch.tensor(shares, dtype=torch.float64)), parts)

    def log_prob(self, x: Tensor) -> Tensor:
        density: Tensor = self.density(self.shares).log_prob(x)
        return density

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return draw(self.density(self.shares), generator, (n,))


def fails(law: Law, cls: Any) -> bool:
    found = law(*cls.example())
    assert found is not None
    return not found.holds


@pytest.mark.parametrize(("size", "count"), [(1, 2), (2, 2), (3, 1)])
def test_a_sampler_of_its_density_keeps_the_laws(size: int, count: int) -> None:
    found = laws.check_sampler(*Mixture.example(size))
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == count


class WrongShares(Mixture):
    """Each mode is right, but they are mixed in other shares."""

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return draw(self.density((0.4, 0.6)), generator, (n,))


class DropsAMode(Mixture):
    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return draw(self.density((0.0001, 0.9999)), generator, (n,))


class TooNarrow(Mixture):
    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return 0.9 * super().sample(n, generator=generator)


def test_samples_of_another_density_are_caught() -> None:
    for mutant in (WrongShares, DropsAMode, TooNarrow):
        assert fails(laws.samples_follow_the_density, mutant), mutant


class Repeats(Mixture):
    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return super().sample(1, generator=generator).expand(n, -1)


class Infinite(Mixture):
    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return super().sample(n, generator=generator) / 0


def test_samples_that_repeat_or_are_not_numbers_are_caught() -> None:
    for mutant in (Repeats, Infinite):
        assert fails(laws.samples_are_finite_and_differ, mutant), mutant


def test_the_kind_needs_its_method() -> None:
    with pytest.raises(UsageError, match="has sample"):
        laws.check_sampler(nn.Linear(1, 1), Batch(torch.zeros(1, 1)))
