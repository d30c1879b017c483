"""DDPM: exact posterior, bound and sampling against Bayes, Gaussian closed forms and diffusers."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.diffusion._diffusion import NoiseSchedule, ScheduleName, beta_schedule
from deepcanon.models.diffusion.ddpm import DDPM

COVARIANCE = torch.tensor([[1.3, 0.5], [0.5, 0.4]], dtype=torch.float64)
MEAN = torch.tensor([2.0, -1.0], dtype=torch.float64)
SPREAD = math.sqrt(0.85)  # the root mean square distance from the mean over both values


class Analytic(DDPM):
    """The best prediction of the noise in Gaussian data, so that nothing has to be trained."""

    def _predicted_noise(self, net: nn.Module, x: Tensor, t: Tensor, at: NoiseSchedule) -> Tensor:
        noisy = at.alpha_bar.unsqueeze(-1) * COVARIANCE / SPREAD**2 + at.beta_bar.unsqueeze(-1) * torch.eye(2)
        solved: Tensor = torch.linalg.solve(noisy, x.unsqueeze(-1)).squeeze(-1)
        return at.beta_bar.sqrt() * solved  # E[ε | x_t] = sqrt(1 - ᾱ) (ᾱ C + (1 - ᾱ) I)^-1 x_t


def analytic(timesteps: int, noise: ScheduleName = "linear") -> Analytic:
    model = Analytic(2, hidden=(4,), timesteps=timesteps, noise=noise).double()
    model.to_standard.set(torch.tensor(1 / SPREAD), -MEAN / SPREAD)
    model.betas = torch.cat([torch.zeros(1, dtype=torch.float64), beta_schedule(noise, timesteps)])
    return model


def gaussian() -> MultivariateNormal:
    return MultivariateNormal(MEAN, COVARIANCE)


def scheduler(name: str, timesteps: int, noise: ScheduleName, **options: Any) -> Any:
    """The scheduler of diffusers with as many timesteps; its timestep i is our timestep i + 1."""
    diffusers = pytest.importorskip("diffusers", reason="needs diffusers, of deepcanon[oracles]")
    if noise == "cosine":
        options |= {"beta_schedule": "squaredcos_cap_v2"}
    else:
        options |= {"beta_start": 0.1 / timesteps, "beta_end": 20 / timesteps, "beta_schedule": "linear"}
    return getattr(diffusers, name)(num_train_timesteps=timesteps, clip_sample=False, **options)


@pytest.mark.parametrize("noise", ["linear", "cosine"])
@pytest.mark.parametrize("timesteps", [50, 1000])
def test_the_schedule_is_that_of_diffusers(noise: ScheduleName, timesteps: int) -> None:
    schedule = DDPM(2, hidden=(4,), timesteps=timesteps, noise=noise).noise_schedule()
    peer = scheduler("DDPMScheduler", timesteps, noise)
    assert torch.allclose(schedule.beta[1:], peer.betas, atol=1e-6)
    assert torch.allclose(schedule.alpha_bar[1:], peer.alphas_cumprod, atol=1e-6)


@pytest.mark.parametrize("noise", ["linear", "cosine"])
@pytest.mark.parametrize("t", [100, 37, 2, 1])
def test_one_step_of_the_reverse_process_is_that_of_diffusers(noise: ScheduleName, t: int) -> None:
    torch.manual_seed(0)
    model = DDPM(3, hidden=(8,), timesteps=100, noise=noise)
    peer = scheduler("DDPMScheduler", 100, noise, variance_type="fixed_large")
    x = torch.randn(5, 3)
    time = torch.full((5,), t)
    with torch.no_grad():
        predicted = model.predicted_noise(x, time)
        peers = peer.step(predicted, t - 1, x, generator=torch.Generator().manual_seed(0)).prev_sample
        mine = model.reverse(x, time)
    draw = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)) if t > 1 else torch.zeros(5, 3)
    assert torch.allclose(mine.mean + mine.stddev * draw, peers, atol=1e-6 * (1 + float(peers.abs().max())))


def test_ddim_is_that_of_diffusers() -> None:
    torch.manual_seed(0)
    model = DDPM(3, hidden=(8,), timesteps=100, noise="linear")
    peer = scheduler("DDIMScheduler", 100, "linear")
    peer.set_timesteps(100)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        for i in peer.timesteps:
            x = peer.step(model.predicted_noise(x, i.reshape(1) + 1), i, x, eta=0.0).prev_sample
    assert torch.allclose(model.ddim(4, 100, generator=torch.Generator().manual_seed(5)), x, atol=1e-4)


def test_the_posterior_is_bayes_rule() -> None:
    """q(x_s | x_t, x_0) q(x_t | x_0) = q(x_t | x_s) q(x_s | x_0) with s = t - 1, at any points."""
    torch.manual_seed(0)
    model = analytic(20)
    x0, before, now = (torch.randn(19, 2, dtype=torch.float64) for _ in range(3))
    t = torch.arange(2, 21)
    left = model.posterior(now, x0, t).log_prob(before) + model.noised(x0, t).log_prob(now)
    right = model.step(before, t).log_prob(now) + model.noised(x0, t - 1).log_prob(before)
    assert torch.allclose(left, right, atol=1e-9, rtol=1e-9)


def test_the_first_step_of_noise_starts_at_the_data() -> None:
    model = analytic(20)
    x0, one = gaussian().sample(torch.Size([3])), torch.ones(3, dtype=torch.long)
    first, all_at_once = model.step(x0, one), model.noised(x0, one)
    assert torch.allclose(first.mean, all_at_once.mean)
    assert torch.allclose(first.variance, all_at_once.variance)


def exact_bound(model: Analytic, x: Tensor) -> Tensor:
    """E_q [log p(x_0 ... x_T) - log q(x_1 ... x_T | x_0)], the bound as it is defined, along drawn paths."""
    total = torch.zeros(len(x), dtype=torch.float64)
    path = [x]
    for t in range(1, model.timesteps + 1):
        time = torch.full((len(x),), t)
        ahead = model.step(path[-1], time)
        path.append(ahead.sample())
        total += model.reverse(path[-1], time).log_prob(path[-2]) - ahead.log_prob(path[-1])
    return total + model.prior().log_prob(path[-1])


def test_the_bound_is_the_expectation_that_defines_it() -> None:
    torch.manual_seed(0)
    model = analytic(12)
    x = gaussian().sample(torch.Size([2])).repeat(50_000, 1)
    defined, claimed = (values.reshape(-1, 2) for values in (exact_bound(model, x), model.log_prob(x)))
    error = ((defined.var(0) + claimed.var(0)) / len(defined)).sqrt()
    assert ((defined.mean(0) - claimed.mean(0)).abs() < 5 * error).all()


@pytest.mark.parametrize("noise", ["linear", "cosine"])
def test_the_bound_lies_below_the_evidence_of_gaussian_data_and_reaches_it_with_many_timesteps(
    noise: ScheduleName,
) -> None:
    """On average over the data no density is above their own; with the best prediction the gap falls as 1/T."""
    torch.manual_seed(0)
    gaps = []
    for timesteps in (5, 20, 80):
        x = gaussian().sample(torch.Size([20_000]))
        gap = gaussian().log_prob(x) - analytic(timesteps, noise).log_prob(x)
        gaps.append(float(gap.mean()))
        assert gaps[-1] > -4 * float(gap.std()) / math.sqrt(20_000)
    assert gaps[0] > gaps[1] + 0.05
    assert gaps[2] < 0.05


def test_a_few_drawn_timesteps_estimate_the_same_bound() -> None:
    torch.manual_seed(0)
    model = analytic(100, "cosine")
    x = gaussian().sample(torch.Size([4])).repeat(5000, 1)
    every, few = (model.log_prob(x, samples=samples).reshape(5000, 4) for samples in (None, 3))
    error = ((every.var(0) + few.var(0)) / 5000).sqrt()
    assert ((every.mean(0) - few.mean(0)).abs() < 5 * error).all()
    one = model.log_prob(x, samples=1)
    assert one.std() > few.std()


def test_units_of_the_data_shift_the_bound() -> None:
    torch.manual_seed(0)
    model = DDPM(2, hidden=(8,), timesteps=5).double()
    x = torch.randn(50, 2, dtype=torch.float64)
    model.prepare([Batch(x)])
    plain = model.log_prob(x, generator=torch.Generator().manual_seed(0))
    model.prepare([Batch(10 * x + 3)])
    other = model.log_prob(10 * x + 3, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(other, plain - 2 * math.log(10), atol=1e-5)


@pytest.mark.parametrize("how", ["ancestral", "ddim"])
def test_samples_of_the_best_prediction_have_the_moments_of_the_data(how: str) -> None:
    model, generator = analytic(300), torch.Generator().manual_seed(0)
    x = (
        model.sample(20_000, generator=generator)
        if how == "ancestral"
        else model.ddim(20_000, 100, generator=generator)
    )
    assert torch.allclose(x.mean(0), MEAN, atol=0.04)
    assert torch.allclose(x.T.cov(), COVARIANCE, atol=0.05)


def test_ddim_is_a_function_of_its_first_noise_and_eta_brings_noise_back() -> None:
    model = analytic(50)
    first, second = (model.ddim(5, 10, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    noisy = model.ddim(5, 10, eta=1.0, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first, second)
    assert not torch.allclose(first, noisy, atol=0.1)


@pytest.mark.slow
def test_it_learns_the_score_and_the_evidence_of_gaussian_data() -> None:
    torch.manual_seed(0)
    x = gaussian().sample(torch.Size([4000])).float()
    model = DDPM(2, hidden=(32, 32), timesteps=100)
    dc.fit(model, dc.from_tensors(x), steps=1000, batch_size=256, lr=4e-3, quiet=True)
    model.eval()
    test = gaussian().sample(torch.Size([1000]))
    scale = float(model.to_standard.scale)
    with torch.no_grad():
        for t in (10, 40, 70):
            at = model.noise_schedule().at(torch.tensor([t]))
            variance = float(at.beta_bar / at.alpha_bar) / scale**2  # of the noise, in the units of the data
            noisy = test + math.sqrt(variance) * torch.randn_like(test)
            wanted = -torch.linalg.solve(COVARIANCE + variance * torch.eye(2), (noisy - MEAN).T).T
            error = (model.score(noisy.float(), t) - wanted).square().sum(-1).mean() / wanted.square().sum(-1).mean()
            assert error < 0.05, t
        bound = model.log_prob(test.float()).mean()
    gap = float(gaussian().log_prob(test).mean() - bound)
    assert -0.05 < gap < 0.25


def test_predictions_come_from_the_average_of_the_weights() -> None:
    """After training the live weights and their average differ; samples and bound come from the average."""
    torch.manual_seed(0)
    model, batch = DDPM.example()
    dc.fit(model, dc.from_tensors(batch.x), steps=20, quiet=True)
    model.eval()
    before = model.sample(4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in model.net.parameters():
            parameter.zero_()
    assert torch.equal(before, model.sample(4, generator=torch.Generator().manual_seed(0)))
    assert int(model.averaged.updates) == 20


def test_a_decay_of_one_would_never_learn() -> None:
    with pytest.raises(UsageError, match="below 1"):
        DDPM(2, average=1.0)


@pytest.mark.slow
def test_samples_pass_as_digits() -> None:
    """A classifier that knows nothing of the model is as sure of its samples as of real digits, and sees all ten."""
    torch.manual_seed(0)
    data = dc.load_data("digits")
    model = DDPM(64)
    dc.fit(model, data, quiet=True)
    model.eval()
    classifier = MLPClassifier((128,), max_iter=300, random_state=0)
    classifier.fit(data.train.x.flatten(1).numpy(), data.train.y.numpy())
    real = classifier.predict_proba(data.split("test").x.flatten(1).numpy())
    drawn = classifier.predict_proba(model.sample(1000, generator=torch.Generator().manual_seed(0)).numpy())
    sure_of_real, sure = ((shares.max(1) > 0.9).mean() for shares in (real, drawn))
    assert sure >= 0.85 * sure_of_real
    assert np.bincount(drawn.argmax(1), minlength=10).min() >= 30
