"""DDPM: exact posterior, bound and sampling against Bayes, Gaussian closed forms and diffusers."""

import math
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import Batch, UsageError
from deepcanon.models.diffusion._denoiser import Predicted, Variances
from deepcanon.models.diffusion._diffusion import ScheduleName, beta_schedule
from deepcanon.models.diffusion._solvers import Level, Prediction, dpm_solver
from deepcanon.models.diffusion.ddpm import DDPM
from deepcanon.nn.ode import integrate
from deepcanon.nn.probability_flow import axes, to_data, to_noise

COVARIANCE = torch.tensor([[1.3, 0.5], [0.5, 0.4]], dtype=torch.float64)
MEAN = torch.tensor([2.0, -1.0], dtype=torch.float64)
SPREAD = math.sqrt(0.85)  # the root mean square distance from the mean over both values


class Analytic(DDPM):
    """The best prediction of the noise in Gaussian data, so that nothing has to be trained."""

    def _predicted_by(self, net: nn.Module, x: Tensor, t: Tensor, level: Level) -> Prediction:
        scaled = COVARIANCE / SPREAD**2
        noisy = level.signal.square().unsqueeze(-1) * scaled + level.noise.square().unsqueeze(-1) * torch.eye(2)
        solved: Tensor = torch.linalg.solve(noisy, ((torch.eye(2) - scaled) @ x.T).T.unsqueeze(-1)).squeeze(-1)
        return Prediction(level.signal * level.noise * solved)  # E[v | x_t] = sqrt(ᾱ (1 - ᾱ)) (...)^-1 (I - C) x_t


def analytic(timesteps: int, noise: ScheduleName = "linear") -> Analytic:
    model = Analytic(2, hidden=(4,), timesteps=timesteps, noise=noise).double()
    model.to_standard.set(torch.tensor(1 / SPREAD), -MEAN / SPREAD)
    model.betas = torch.cat([torch.zeros(1, dtype=torch.float64), beta_schedule(noise, timesteps)])
    return model


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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


@pytest.mark.slow
def test_the_bound_is_the_expectation_that_defines_it() -> None:
    torch.manual_seed(0)
    model = analytic(12)
    x = gaussian().sample(torch.Size([2])).repeat(50_000, 1)
    defined, claimed = (values.reshape(-1, 2) for values in (exact_bound(model, x), model.log_prob(x)))
    error = ((defined.var(0) + claimed.var(0)) / len(defined)).sqrt()
    assert ((defined.mean(0) - claimed.mean(0)).abs() < 5 * error).all()


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("noise", ["linear", "cosine"])
def test_the_flow_with_the_exact_score_has_the_likelihood_of_gaussian_data(noise: ScheduleName) -> None:
    """Its closed form counts in the signal that is left at the last timestep, which the prior does not know."""
    torch.manual_seed(0)
    model = analytic(1000, noise).with_likelihood("flow")
    model.tolerance = 1e-10
    x = MEAN + 2 * torch.randn(50, 2, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(COVARIANCE / SPREAD**2)
    signal = model.noise_schedule().alpha_bar[-1]
    stretch = ((signal * values + 1 - signal) / values).sqrt()  # of the exact flow along each eigenvector
    z = ((x - MEAN) / SPREAD) @ vectors * stretch
    wanted = -0.5 * z.square().sum(-1) - math.log(2 * math.pi) + stretch.log().sum() - 2 * math.log(SPREAD)
    assert torch.allclose(model.log_prob(x), wanted, atol=1e-8)
    assert (wanted - gaussian().log_prob(x)).abs().max() < 2e-3


def test_random_directions_give_the_likelihood_of_the_flow_in_expectation() -> None:
    torch.manual_seed(0)
    model = analytic(100, "cosine").with_likelihood("flow")
    x = MEAN + torch.randn(3, 2, dtype=torch.float64)
    exact = model.log_prob(x)
    model.likelihood_kind = "estimate"
    model._flow_kind = lambda: "estimate"  # type: ignore[method-assign]
    drawn = model.log_prob(x.repeat(500, 1), generator=torch.Generator().manual_seed(0)).reshape(500, 3)
    assert ((drawn.mean(0) - exact).abs() < 5 * drawn.std(0) / math.sqrt(500) + 1e-6).all()
    assert model.log_prob(x.repeat(100, 1), samples=16).reshape(100, 3).std(0).max() < 0.5 * drawn.std(0).max()


@pytest.mark.slow
def test_the_flow_of_any_network_is_a_density_that_its_samples_follow() -> None:
    """The mass is 1 on a grid; the density by change of variables is that of the noise that a solver starts from."""
    torch.manual_seed(0)
    model, batch = DDPM.example()
    dc.fit(model, dc.from_tensors(batch.x), steps=30, lr=1e-2, quiet=True)
    flow = model.double().eval().with_likelihood("flow")
    line = torch.linspace(-11, 13, 29, dtype=torch.float64)
    with torch.no_grad():
        mass = flow.log_prob(torch.cartesian_prod(line, line)).exp().sum() * (line[1] - line[0]) ** 2
        noise = torch.randn(5, 2, dtype=torch.float64)
        x = flow._to_data(to_data(flow._flow, noise, flow._last_angle(), tolerance=1e-9))
        z, _ = to_noise(flow._flow, flow._standard(x), flow._last_angle(), axes(x), tolerance=1e-9)
    assert abs(float(mass) - 1) < 1e-3
    assert torch.allclose(z, noise, atol=1e-5)


def test_the_likelihoods_have_their_kinds_and_wrong_names_are_refused() -> None:
    model, _ = DDPM.example()
    assert (model.likelihood_kind, model.with_likelihood("flow").likelihood_kind) == ("lower bound", "exact")
    assert DDPM(9, hidden=(4,)).with_likelihood("flow").likelihood_kind == "estimate"
    assert model.with_likelihood("flow").with_likelihood("bound").likelihood_kind == "lower bound"
    assert model.with_likelihood("flow").averaged is model.averaged
    with pytest.raises(UsageError, match="likelihood must be one of bound, flow"):
        model.with_likelihood("exact")


@pytest.mark.parametrize(("sampler", "order"), [("ddim", 1), ("heun", 2)])
def test_the_order_of_a_sampler_is_that_of_its_error_on_a_gaussian(sampler: str, order: int) -> None:
    """The exact flow of Gaussian data is linear; halving the steps' size divides the error by 2, or by 4."""
    model = analytic(2000, "cosine")
    start = torch.randn(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = model._to_data(to_data(model._flow, start, model._last_angle(), tolerance=1e-10))
    drawn = [model.sample(200, sampler=sampler, steps=n, generator=seeded(0)) for n in (50, 100, 200)]
    errors = [float((x - exact).square().mean().sqrt()) for x in drawn]
    assert [math.log2(a / b) for a, b in pairwise(errors)] == pytest.approx([order, order], abs=0.05)


def test_dpm_solver_has_order_2_between_noise_levels_and_beats_ddim_on_the_way_to_data() -> None:
    """Its order is that of equal steps of the log signal-to-noise ratio, which do not reach data without noise."""
    model = analytic(1000, "cosine")
    x = torch.randn(200, 2, dtype=torch.float64, generator=seeded(0))
    first, last = 1.4, 0.1
    exact = integrate(model._flow, x, (first, last), rtol=1e-10, atol=1e-10)[-1]
    errors = []
    for steps in (20, 40, 80):
        ends = -torch.tensor([first, last], dtype=torch.float64).tan().log()
        angle = (-torch.linspace(float(ends[0]), float(ends[1]), steps + 1, dtype=torch.float64)).exp().atan()
        path = Level(angle.cos().unsqueeze(-1), angle.sin().unsqueeze(-1))
        got = dpm_solver(x, lambda y, i: model._predict(y, torch.ones(1), path.part(i)), path)  # noqa: B023
        errors.append(float((got - exact).square().mean().sqrt()))
    assert [math.log2(a / b) for a, b in pairwise(errors)] == pytest.approx([2, 2], abs=0.2)
    whole = model._to_data(to_data(model._flow, x, model._last_angle(), tolerance=1e-10))
    drawn = [model.sample(200, sampler=sampler, steps=20, generator=seeded(0)) for sampler in ("ddim", "dpm")]
    of_ddim, of_dpm = (float((y - whole).square().mean().sqrt()) for y in drawn)
    assert of_dpm < 0.25 * of_ddim


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
def test_dpm_solver_is_that_of_diffusers() -> None:
    torch.manual_seed(0)
    model = DDPM(3, hidden=(8,), timesteps=100, noise="linear").double()
    for weights in model.averaged.buffers():
        weights.add_(torch.randn_like(weights), alpha=0.2)
    options = {"algorithm_type": "dpmsolver++", "solver_order": 2, "final_sigmas_type": "zero"}
    diffusers = pytest.importorskip("diffusers", reason="needs diffusers, of deepcanon[oracles]")
    peer = diffusers.DPMSolverMultistepScheduler(100, beta_start=1e-3, beta_end=0.2, beta_schedule="linear", **options)
    peer.set_timesteps(timesteps=list(range(99, 0, -5)))
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        for i in peer.timesteps:
            x = peer.step(model.predicted_noise(x, i.reshape(1) + 1), i, x).prev_sample
    mine = model.sample(4, sampler="dpm", steps=20, generator=torch.Generator().manual_seed(5))
    assert torch.allclose(mine, x, atol=1e-5)


def test_a_sampler_is_asked_for_by_name() -> None:
    model, _ = DDPM.example()
    twice = [model.sample(3, sampler="ddim", steps=4, generator=torch.Generator().manual_seed(0)) for _ in range(2)]
    assert torch.equal(*twice)
    assert torch.equal(twice[0], model.ddim(3, 4, generator=torch.Generator().manual_seed(0)))
    with pytest.raises(UsageError, match="sampler must be one of ancestral, ddim, heun, dpm"):
        model.sample(3, sampler="euler")
    with pytest.raises(UsageError, match="takes all 8 timesteps; leave out steps, or take the sampler ddim, heun or"):
        model.sample(3, steps=4)


@pytest.mark.parametrize("prediction", ["noise", "data"])
def test_networks_that_predict_the_same_have_one_bound(prediction: Predicted) -> None:
    """A network of one function f, rescaled for what it predicts, is the same model: equal bounds, draw by draw."""
    models = [DDPM(2, hidden=(4,), timesteps=12, prediction=each).double() for each in ("v", prediction)]

    class Rescaled(nn.Module):
        def forward(self, x: Tensor, time: Tensor) -> Tensor:
            level = models[0].noise_schedule().at((time * 12 / 1000).round().long()).level
            by = {"v": torch.ones(1), "noise": level.signal, "data": -level.noise}[self.predicts]
            return by * torch.sin(x.flip(-1))

        def __init__(self, predicts: str) -> None:
            super().__init__()
            self.predicts = predicts

    for model in models:
        model.averaged.net = Rescaled(model.prediction)
    x = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    first, second = (model.log_prob(x, generator=torch.Generator().manual_seed(1)) for model in models)
    assert torch.allclose(first, second, atol=1e-9)
    one, other = (model.sample(5, sampler="dpm", steps=6, generator=seeded(1)) for model in models)
    assert torch.allclose(one, other, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("prediction", ["v", "noise", "data"])
def test_learned_variances_keep_the_laws_and_their_bounds(prediction: Predicted) -> None:
    torch.manual_seed(0)
    model = DDPM(2, hidden=(8,), timesteps=8, prediction=prediction, variances="learned")
    found = laws.check((model, DDPM.example()[1]), "diffusion")
    assert all(outcome.holds for outcome in found), laws.report(found)
    x, t = torch.randn(8, 2), torch.arange(1, 9)
    schedule = model.noise_schedule()
    with torch.no_grad():
        for weights in model.averaged.buffers():
            weights.add_(torch.randn_like(weights), alpha=3)
        variance = model.reverse(x, t).variance * torch.where(t == 1, model.to_standard.scale**2, 1.0).unsqueeze(-1)
    beta, later = schedule.beta[t].unsqueeze(-1), t.clamp_min(2)
    least = beta * (schedule.beta_bar[later - 1] / schedule.beta_bar[later]).unsqueeze(-1)
    assert (variance <= beta * (1 + 1e-5)).all()
    assert (variance >= least * (1 - 1e-5)).all()
    assert variance.log().std() > 0.1


@pytest.mark.slow
def test_learned_variances_raise_the_bound_of_data_near_points_with_few_timesteps() -> None:
    """There the right variance is nearer to that of the posterior, and matters most where steps are large."""
    x = torch.randint(2, (6000, 2), generator=seeded(0)).mul(2.0).sub(1) + 0.1 * torch.randn(
        6000, 2, generator=seeded(1)
    )
    bounds = []
    for variances in get_args(Variances):
        torch.manual_seed(0)
        model = DDPM(2, hidden=(32, 32), timesteps=10, variances=variances, average=0.99)
        dc.fit(model, dc.from_tensors(x[:4000]), steps=500, batch_size=256, lr=4e-3, quiet=True, evaluate=False)
        with torch.no_grad():
            bounds.append(float(model.eval().log_prob(x[4000:]).mean()))
    entropy = 2 * (math.log(2) + 0.5 * math.log(2 * math.pi * math.e * 0.01))
    assert bounds[0] + 0.1 < bounds[1] < -entropy + 0.05, (bounds, -entropy)


def images() -> DDPM:
    """A small U-Net of images, with weights that are nowhere zero."""
    torch.manual_seed(0)
    model = DDPM(16, channels=1, height=4, width=4, levels=8, network="unet", hidden=(4, 8), timesteps=4)
    for weights in model.averaged.buffers():
        weights.add_(torch.randn_like(weights), alpha=0.05)
    return model.double().eval()


@pytest.mark.slow
def test_a_unet_of_images_has_both_likelihoods_in_bits_and_samples() -> None:
    model = images()
    x = torch.rand(6, 1, 4, 4, dtype=torch.float64, generator=seeded(0))
    metrics = model.metrics(Batch(x))
    assert metrics["bits_per_dim"] == pytest.approx(float(metrics["nll"]) / (16 * math.log(2)) + 3, abs=1e-9)
    assert torch.equal(model.bound(x)["prior"], model.bound(x.flatten(1))["prior"])
    flow = model.with_likelihood("flow")
    flow.tolerance = 1e-3
    estimates = flow.log_prob(x[:2].repeat(40, 1, 1, 1), generator=seeded(0)).reshape(40, 2)
    flow._flow_kind = lambda: "exact"  # type: ignore[method-assign]
    exact = flow._log_prob(x[:2])
    assert ((estimates.mean(0) - exact).abs() < 5 * estimates.std(0) / math.sqrt(40) + 0.01).all()
    assert model.sample(3, sampler="heun", steps=2, generator=seeded(0)).shape == (3, 16)
    assert model.sample(0).shape == (0, 16)


def test_a_unet_needs_images() -> None:
    with pytest.raises(UsageError, match="a U-Net is a network of images; take images as data, or network=mlp"):
        DDPM(16, network="unet")


@pytest.mark.slow
def test_it_learns_the_score_and_the_evidence_of_gaussian_data() -> None:
    torch.manual_seed(0)
    x = gaussian().sample(torch.Size([4000])).float()
    model = DDPM(2, hidden=(32, 32), timesteps=100)
    dc.fit(model, dc.from_tensors(x), steps=1000, batch_size=256, lr=4e-3, quiet=True, evaluate=False)
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
    dc.fit(model, data, quiet=True, evaluate=False)
    model.eval()
    classifier = MLPClassifier((128,), max_iter=300, random_state=0)
    classifier.fit(data.train.x.flatten(1).numpy(), data.train.y.numpy())
    real = classifier.predict_proba(data.split("test").x.flatten(1).numpy())
    drawn = classifier.predict_proba(model.sample(1000, generator=torch.Generator().manual_seed(0)).numpy())
    sure_of_real, sure = ((shares.max(1) > 0.9).mean() for shares in (real, drawn))
    assert sure >= 0.85 * sure_of_real
    assert np.bincount(drawn.argmax(1), minlength=10).min() >= 30
