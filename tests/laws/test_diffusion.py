"""Each law of diffusion processes is shown a process that breaks it; DDPM keeps them all."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution, Independent, Normal, kl_divergence

from deepcanon.core import Batch, Terms, UsageError
from deepcanon.laws import diffusion as laws
from deepcanon.laws import report
from deepcanon.laws.outcome import Law
from deepcanon.models.diffusion.ddpm import DDPM


def fails(law: Law, cls: Any) -> bool:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return not found.holds


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["linear", "cosine"])
def test_ddpm_keeps_the_laws(noise: Any) -> None:
    torch.manual_seed(0)
    found = laws.check_diffusion(DDPM(features=2, hidden=(8,), timesteps=8, noise=noise), DDPM.example()[1])
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == 4


class ConsistencyTerms(DDPM):
    """The sum of E KL(q(x_t | x_{t-1}) || p(x_t | x_{t+1})), in which x_t is drawn without conditioning on x_{t+1}."""

    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        rows = len(x)
        times = [torch.full((rows,), t) for t in range(self.timesteps + 1)]
        path = [x]
        for t in range(1, self.timesteps + 1):
            path.append(self.step(path[-1], times[t]).sample())
        total: Tensor = self.reverse(path[1], times[1]).log_prob(x)
        total = total - kl_divergence(self.step(path[-2], times[-1]), self.prior().expand(torch.Size([rows])))
        for t in range(1, self.timesteps):
            total = total - kl_divergence(self.step(path[t - 1], times[t]), self.reverse(path[t + 1], times[t + 1]))
        return total


class NoReconstruction(DDPM):
    """The bound leaves out log p(x_0 | x_1)."""

    def bound(self, x: Tensor, samples: int | None = None) -> Terms:
        return {name: term for name, term in super().bound(x, samples).items() if name != "reconstruction"}


class LossForBound(DDPM):
    """Minus the simple loss, with all timesteps weighted alike, given out as a likelihood."""

    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        schedule, x = self.noise_schedule(), self._standard(x)
        errors = [
            self._excess(x, torch.full((len(x),), t), schedule) / schedule.beta[t] for t in range(1, self.timesteps + 1)
        ]
        return -torch.stack(errors).sum(0)


class ForgetsTheUnits(DDPM):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return super().log_prob(x) - self.features * self.to_standard.scale.log()


@pytest.mark.slow
def test_a_wrong_bound_is_caught() -> None:
    for mutant in (ConsistencyTerms, NoReconstruction, LossForBound, ForgetsTheUnits):
        assert fails(laws.log_prob_is_the_evidence_lower_bound, mutant), mutant


class VarianceOfTheStep(DDPM):
    """The posterior has the variance of one step of noise."""

    def posterior(self, x: Tensor, x0: Tensor, t: Tensor) -> Distribution:
        mean = super().posterior(x, x0, t).mean
        return Independent(Normal(mean, self.noise_schedule().at(t).beta.sqrt().expand_as(mean)), 1)


class MeanSwapped(DDPM):
    """The posterior's mean gives x_0 the weight of x_t."""

    def posterior(self, x: Tensor, x0: Tensor, t: Tensor) -> Distribution:
        return self._posterior(self._standard(x0), x, t)


class OneStepForAll(DDPM):
    """q(x_t | x_0) takes α_t where the product of all of them belongs."""

    def noised(self, x0: Tensor, t: Tensor) -> Distribution:
        at = self.noise_schedule().at(t)
        mean = at.alpha.sqrt() * self._standard(x0)
        return Independent(Normal(mean, at.beta.sqrt().expand_as(mean)), 1)


def test_a_wrong_posterior_is_caught() -> None:
    for mutant in (VarianceOfTheStep, MeanSwapped, OneStepForAll):
        assert fails(laws.posterior_is_bayes_rule, mutant), mutant


class TooLittleNoise(DDPM):
    def __init__(self, features: int, hidden: tuple[int, ...] = (8,), timesteps: int = 8) -> None:
        super().__init__(features, hidden=hidden, timesteps=timesteps)
        self.betas = self.betas / 20


def test_noise_that_ends_too_early_is_caught() -> None:
    assert fails(laws.noise_ends_at_the_prior, TooLittleNoise)


class NoNoiseOnTheWay(DDPM):
    def sample(self, n: int, *, generator: Generator | None = None, **_: Any) -> Tensor:
        return self.ddim(n, self.timesteps, generator=generator)


class NoNumbers(DDPM):
    def sample(self, n: int, *, generator: Generator | None = None, **_: Any) -> Tensor:
        return torch.nan * super().sample(n, generator=generator)


class StartsNarrow(DDPM):
    def _noise(self, n: int, generator: Generator | None) -> Tensor:
        return 0.5 * super()._noise(n, generator)


def test_samples_of_another_chain_are_caught() -> None:
    for mutant in (NoNoiseOnTheWay, NoNumbers, StartsNarrow):
        assert fails(laws.samples_follow_the_reverse_process, mutant), mutant


def test_the_kind_needs_its_parts() -> None:
    with pytest.raises(UsageError, match="timesteps is missing"):
        laws.check_diffusion(nn.Linear(1, 1), Batch(torch.zeros(1, 1)))
