"""Diffusion models: the forward process that adds noise, its exact posterior, the reverse process and the ELBO."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import Batch, LikelihoodKind, NamedSamplers, Terms, UsageError, drawing_from
from deepcanon.core.checks import at_least, one_of
from deepcanon.models._denoising import FlowDensity
from deepcanon.models.diffusion._solvers import Level, Predict, Prediction, dpm_solver, heun, stochastic

B = TypeVar("B", bound=Batch)

ScheduleName = Literal["linear", "cosine"]

FEW_STEPS = 20
"""How many steps a sampler takes by default that need not go through all timesteps."""

CHUNK = 2**18
"""How many numbers the ELBO sends through the network at once, so that many timesteps fit into memory."""


def beta_schedule(name: ScheduleName, timesteps: int) -> Tensor:
    r"""The betas :math:`\beta_1 \dots \beta_T`, the variances of the noise of each timestep, in double precision.

    ``linear`` rises from 0.0001 to 0.02 over 1000 timesteps; with fewer, each adds more, so that the sum stays.
    ``cosine`` is :math:`\beta_t = \min(1 - \bar\alpha_t / \bar\alpha_{t-1}, 0.999)` with :math:`\bar\alpha_t \propto
    \cos^2(\frac{t / T + 0.008}{1.008} \cdot \frac\pi2)`.

    References:
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239
        | Improved Denoising Diffusion Probabilistic Models (Nichol and Dhariwal, 2021),
          https://arxiv.org/abs/2102.09672

    >>> beta_schedule("linear", 1000)[[0, -1]].tolist()
    [0.0001, 0.02]
    """
    if name == "linear":
        scale = 1000 / timesteps
        return torch.linspace(1e-4 * scale, 0.02 * scale, timesteps, dtype=torch.float64).clamp_max(0.999)
    time = torch.arange(timesteps + 1, dtype=torch.float64) / timesteps
    alpha_bar = ((time + 0.008) / 1.008 * math.pi / 2).cos().square()  # up to a factor
    return (1 - alpha_bar[1:] / alpha_bar[:-1]).clamp_max(0.999)


class NoiseSchedule(NamedTuple):
    r"""The noise schedule: :math:`\beta_t`, :math:`\alpha_t = 1 - \beta_t`, their product :math:`\bar\alpha_t =
    \alpha_1 \cdots \alpha_t`, and :math:`\bar\beta_t = 1 - \bar\alpha_t`; timestep 0 is the data."""

    beta: Tensor
    alpha: Tensor
    alpha_bar: Tensor
    beta_bar: Tensor

    def at(self, t: Tensor) -> NoiseSchedule:
        """The values at these timesteps, as columns."""
        return NoiseSchedule(*(values[t].unsqueeze(-1) for values in self))

    @property
    def level(self) -> Level:
        return Level(self.alpha_bar.sqrt(), self.beta_bar.sqrt())

    @property
    def angle(self) -> Tensor:
        """The angle between the data and the noise in what is noisy, from 0 to almost a right angle."""
        return torch.atan2(self.beta_bar.sqrt(), self.alpha_bar.sqrt())


class Diffusion(FlowDensity[B], NamedSamplers[B]):
    r"""A diffusion model: a forward process adds Gaussian noise in T timesteps, and a learned one reverses it.

    The forward process q and its posterior are known in closed form.

    .. math:: q(x_t \mid x_{t-1}) = N(\sqrt{\alpha_t} \, x_{t-1}, \beta_t I), \qquad
              q(x_t \mid x_0) = N(\sqrt{\bar\alpha_t} \, x_0, (1 - \bar\alpha_t) I) \qquad (1)

    .. math:: q(x_{t-1} \mid x_t, x_0) = N\!\left( \frac{\sqrt{\bar\alpha_{t-1}} \beta_t}{1 - \bar\alpha_t} x_0 +
              \frac{\sqrt{\alpha_t} (1 - \bar\alpha_{t-1})}{1 - \bar\alpha_t} x_t, \; \tilde\beta_t I \right), \qquad
              \tilde\beta_t = \frac{1 - \bar\alpha_{t-1}}{1 - \bar\alpha_t} \beta_t \qquad (2)

    The reverse process :math:`p(x_{t-1} \mid x_t) = N(\mu, \sigma_t^2)` has as its mean that of (2) with a prediction
    of :math:`x_0`. Its variance is the one that is right for smooth data, :math:`\beta_t`, or learned, for each value
    between the variance of (2), right for data of a single point, and that: :math:`\log \sigma_t^2 = f \log \beta_t +
    (1 - f) \log \tilde\beta_t`. A leaf gives both by ``_predict``: the velocity :math:`v = \sqrt{\bar\alpha_t} \,
    \varepsilon - \sqrt{1 - \bar\alpha_t} \, x_0` in :math:`x_t = \sqrt{\bar\alpha_t} x_0 + \sqrt{1 - \bar\alpha_t}
    \varepsilon` as it is predicted, and the share f. The evidence lower bound (ELBO) is

    .. math:: \log p(x_0) \ge E_q \Big[ \log p(x_0 \mid x_1) - KL(q(x_T \mid x_0) \,\|\, p(x_T))
              - \sum_{t=2}^T KL(q(x_{t-1} \mid x_t, x_0) \,\|\, p(x_{t-1} \mid x_t)) \Big] \qquad (3)

    .. math:: KL(q(x_{t-1} \mid x_t, x_0) \,\|\, p(x_{t-1} \mid x_t)) = w_t \frac{\beta_t}{\sigma_t^2} \lVert
              \varepsilon - \hat\varepsilon \rVert^2 + \tfrac D2 \left( \frac{\tilde\beta_t}{\sigma_t^2} - 1 - \log
              \frac{\tilde\beta_t}{\sigma_t^2} \right),
              \qquad w_t = \frac{\beta_t}{2 \alpha_t (1 - \bar\alpha_t)} \qquad (4)

    Data are standardized to zero mean and unit variance first; ``log_prob`` counts that in, and :math:`x_1 \dots x_T`
    live on that scale. By ``with_likelihood("flow")`` the likelihood is that of the probability flow, which starts from
    the same noise and uses the same network at all angles between the timesteps, and ends with other samples.

    References:
        | Deep Unsupervised Learning using Nonequilibrium Thermodynamics (Sohl-Dickstein et al., 2015),
          https://arxiv.org/abs/1503.03585
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239
        | Denoising Diffusion Implicit Models (Song et al., 2021), https://arxiv.org/abs/2010.02502
        | Improved Denoising Diffusion Probabilistic Models (Nichol and Dhariwal, 2021; learned variances),
          https://arxiv.org/abs/2102.09672
        | Score-Based Generative Modeling through Stochastic Differential Equations (Song et al., 2021; the probability
          flow), https://arxiv.org/abs/2011.13456
    """

    samplers = ("ancestral", "ddim", "heun", "dpm")
    likelihoods = ("bound", "flow")
    likelihood: str = "bound"
    likelihood_kind: LikelihoodKind = "lower bound"
    measured_samples = 2  # the ELBO from a few timesteps for each example is enough for a mean over many
    least_draws = 4096  # but not over few: timesteps differ by so much that it would come out nats above the truth
    betas: Tensor

    def __init__(self, features: int, timesteps: int, noise: ScheduleName) -> None:
        super().__init__(features)
        at_least(2, timesteps=timesteps)
        one_of(get_args(ScheduleName), noise=noise)
        self.timesteps = timesteps
        betas = torch.cat([torch.zeros(1, dtype=torch.float64), beta_schedule(noise, timesteps)])
        self.register_buffer("betas", betas.to(torch.get_default_dtype()), persistent=False)

    @abstractmethod
    def _predict(self, x: Tensor, t: Tensor, level: Level) -> Prediction:
        """The predicted velocity in x, (B, features), at timesteps t, (B,) or (1,), and the share f of the variance."""

    def predicted_noise(self, x: Tensor, t: Tensor) -> Tensor:
        """The predicted noise in x, (B, features), at timesteps t, (B,) or (1,)."""
        level = self.noise_schedule().at(t).level
        return self._predict(x, t, level).noise(x, level)

    def noise_schedule(self) -> NoiseSchedule:
        """The noise schedule, each value (timesteps + 1,), without differences that would lose digits."""
        log_alpha_bar = torch.log1p(-self.betas).cumsum(0)
        return NoiseSchedule(self.betas, 1 - self.betas, log_alpha_bar.exp(), -torch.expm1(log_alpha_bar))

    def step(self, x: Tensor, t: Tensor) -> Distribution:
        """q(x_t | x_{t-1}), one step of the forward process."""
        at = self.noise_schedule().at(t)
        return _normal(at.alpha.sqrt() * torch.where(t.unsqueeze(-1) == 1, self.to_standard(x), x), at.beta)

    def noised(self, x0: Tensor, t: Tensor) -> Distribution:
        """q(x_t | x_0), the forward process from the data to timestep t."""
        at = self.noise_schedule().at(t)
        return _normal(at.alpha_bar.sqrt() * self._standard(x0), at.beta_bar)  # eq. (1)

    def posterior(self, x: Tensor, x0: Tensor, t: Tensor) -> Distribution:
        """q(x_{t-1} | x_t, x_0) for t of at least 2."""
        return self._posterior(x, self._standard(x0), t)

    def reverse(self, x: Tensor, t: Tensor) -> Distribution:
        """p(x_{t-1} | x_t), one step of the reverse process; at t = 1 it is over the data, in their own units."""
        schedule = self.noise_schedule()
        at = schedule.at(t)
        predicted = self._predict(x, t, at.level)
        mean = self._posterior(x, predicted.data(x, at.level), t).mean
        variance = at.beta * self._log_ratio(predicted, t, schedule).exp()
        last = (t == 1).unsqueeze(-1)
        unit = torch.where(last, 1 / self.to_standard.scale, 1.0)
        return _normal(torch.where(last, self._to_data(mean), mean), variance * unit**2)

    def prior(self) -> Distribution:
        """p(x_T), pure noise."""
        zeros = self.to_standard.shift
        return _normal(torch.zeros_like(zeros), torch.ones_like(zeros))

    def _kind_of_likelihood(self) -> LikelihoodKind:
        return self._flow_kind() if self.likelihood == "flow" else "lower bound"

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._flow_log_prob(x)

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        """The ELBO (3): with one draw at every timestep, or at ``samples`` timesteps drawn for each example."""
        if self.likelihood == "flow":
            return self._flow_log_prob(x, samples, generator)
        with drawing_from(generator):
            return -torch.stack(list(self.bound(x, samples).values())).sum(0)

    def bound(self, x: Tensor, samples: int | None = None) -> Terms:
        """The terms of the negative ELBO (3), each (B,): ``prior``, ``denoising`` and ``reconstruction``."""
        x = self._standard(x)
        schedule = self.noise_schedule()
        last = schedule.at(torch.tensor([self.timesteps], device=x.device))
        twice_kl = last.alpha_bar * x.square() + last.beta_bar - 1 - last.beta_bar.log()
        ones = torch.ones(len(x), dtype=torch.long, device=x.device)
        constant = 0.5 * (2 * math.pi * schedule.beta[1]).log() - self.to_standard.scale.log()
        return {
            "prior": 0.5 * twice_kl.sum(-1),
            "denoising": self._denoising(x, schedule, samples),
            "reconstruction": self._excess(x, ones, schedule) + self.features * constant,
        }

    def _sample_by(self, n: int, sampler: str, steps: int | None, generator: Generator | None) -> Tensor:
        """Examples drawn by the reverse process through all timesteps, or by a solver through a few, (n, features)."""
        if sampler == "ddim":
            return self.ddim(n, steps or FEW_STEPS, generator=generator)
        if sampler != "ancestral":
            solver = heun if sampler == "heun" else dpm_solver
            return self._to_data(solver(self._noise(n, generator), *self._path(self._few(steps or FEW_STEPS))))
        if steps not in (None, self.timesteps):
            raise UsageError(
                f"ancestral sampling takes all {self.timesteps} timesteps; leave out steps, or take the sampler "
                f"{', '.join(self.samplers[1:-1])} or {self.samplers[-1]}"
            )
        t, schedule = torch.arange(self.timesteps, -1, -1, device=self.betas.device), self.noise_schedule()

        scale = self.betas[t].sqrt()

        def std(i: int, predicted: Prediction) -> Tensor:
            return scale[i] * (0.5 * self._log_ratio(predicted, t[i : i + 1], schedule)).exp()

        return self._reversed(n, t, 1.0, std, generator)

    @torch.no_grad()
    def ddim(self, n: int, steps: int = FEW_STEPS, *, eta: float = 0.0, generator: Generator | None = None) -> Tensor:
        """Examples by DDIM sampling in fewer ``steps``; with ``eta`` 0 they are a function of the first noise alone."""
        at_least(1, steps=steps)
        return self._reversed(n, self._few(steps), eta, None, generator)

    def _reversed(
        self,
        n: int,
        t: Tensor,
        eta: float,
        std: Callable[[int, Prediction], Tensor] | None,
        generator: Generator | None,
    ) -> Tensor:
        """Examples from noise by the reverse process through these timesteps, (n, features)."""

        def fresh() -> Tensor:
            return self._noise(n, generator)

        return self._to_data(stochastic(fresh(), *self._path(t), eta, std, fresh))

    def _few(self, steps: int) -> Tensor:
        """So many timesteps and 0, evenly spaced, or all."""
        t = torch.linspace(self.timesteps, 0, min(steps, self.timesteps) + 1, device=self.betas.device)
        return t.round().long()

    def _path(self, t: Tensor) -> tuple[Predict, Level]:
        """The predictions at these timesteps and their noise levels; the network knows none below timestep 1."""
        level, known = self.noise_schedule().at(t).level, t.clamp_min(1)
        return (lambda x, i: self._predict(x, known[i : i + 1], level.part(i))), level

    def _flow(self, angle: Tensor, y: Tensor) -> Tensor:
        angles = self.noise_schedule().angle
        above = torch.searchsorted(angles, angle.detach().contiguous()).clamp(1, self.timesteps)
        t = above - (angles[above] - angle) / (angles[above] - angles[above - 1])
        level = Level(angle.cos().unsqueeze(-1), angle.sin().unsqueeze(-1))
        return self._predict(y, t.clamp_min(1), level).velocity

    def _last_angle(self) -> float:
        return float(self.noise_schedule().angle[-1])

    def _posterior(self, x: Tensor, x0: Tensor, t: Tensor) -> Distribution:
        """Eq. (2) with x_0 on the standard scale."""
        schedule = self.noise_schedule()
        at, before = schedule.at(t), schedule.at(t - 1)
        mean = (
            before.alpha_bar.sqrt() * at.beta / at.beta_bar * x0 + at.alpha.sqrt() * before.beta_bar / at.beta_bar * x
        )
        return _normal(mean, before.beta_bar / at.beta_bar * at.beta)

    def _log_ratio(self, predicted: Prediction, t: Tensor, schedule: NoiseSchedule) -> Tensor:
        """The logarithm of the variance of the reverse process in units of β_t: 0, or between its bounds by a share."""
        if predicted.share is None:
            return torch.zeros_like(schedule.beta[:1])
        later = t.clamp_min(2)  # at timestep 1 the posterior is a point, whose variance, 0, bounds nothing
        least = (schedule.at(later - 1).beta_bar / schedule.at(later).beta_bar).log()
        return (1 - predicted.share) * least

    def _excess(self, x0: Tensor, t: Tensor, schedule: NoiseSchedule) -> Tensor:
        """The divergence (4) at these timesteps beyond that of the right mean and the variance β_t, (B,).

        It is drawn with one noise for each example. At timestep 1 it is that of -log p(x_0 | x_1).
        """
        at = schedule.at(t)
        noise = torch.randn_like(x0)
        x = at.level.signal * x0 + at.level.noise * noise
        predicted = self._predict(x, t, at.level)
        error = (noise - predicted.noise(x, at.level)).square()
        weight = at.beta / (2 * at.alpha * at.beta_bar)  # w_t of eq. (4)
        if predicted.share is None:
            return weight.squeeze(-1) * error.sum(-1)
        return self._with_variance(weight * error, predicted, t, schedule)

    def _with_variance(self, error: Tensor, predicted: Prediction, t: Tensor, schedule: NoiseSchedule) -> Tensor:
        """The divergence (4) of a learned variance beyond that of β_t, from the weighted errors of its mean, (B,)."""
        log_ratio = self._log_ratio(predicted, t, schedule)
        posterior = schedule.at(t - 1).beta_bar / schedule.at(t).beta_bar
        return ((error + 0.5 * posterior) * (-log_ratio).exp() + 0.5 * (log_ratio - posterior)).sum(-1)  # eq. (4)

    def _denoising(self, x0: Tensor, schedule: NoiseSchedule, samples: int | None) -> Tensor:
        """The sum of the divergences (4) over the timesteps 2 to T, (B,).

        Timesteps are drawn by importance sampling, with probabilities in proportion to w_t times the error of the best
        linear predictor for data of unit variance, stratified over each example's draws; the terms are divided by these
        probabilities, so that they have the right expectation.
        """
        weights = schedule.beta[2:] / (2 * schedule.alpha[2:] * schedule.beta_bar[2:])  # w_2 ... w_T of eq. (4)
        probabilities = weights * schedule.alpha_bar[2:] / (weights * schedule.alpha_bar[2:]).sum()
        count = len(weights) if samples is None else samples
        factors = torch.ones_like(weights) if samples is None else 1 / (probabilities * count)
        total = x0.new_zeros(len(x0))
        for start in range(0, count, size := max(1, CHUNK // max(1, x0.numel()))):
            index = torch.arange(start, min(start + size, count), device=x0.device).repeat_interleave(len(x0))
            if samples is not None:
                uniform = ((index + torch.rand(len(index), device=x0.device)) / count).to(probabilities.dtype)
                index = torch.searchsorted(probabilities.cumsum(0), uniform).clamp_max(len(probabilities) - 1)
            excess = self._excess(x0.repeat(len(index) // max(1, len(x0)), 1), index + 2, schedule)
            total = total + (factors[index] * excess).reshape(-1, len(x0)).sum(0)
        ratio = schedule.beta_bar[1:-1] / schedule.beta_bar[2:]  # of the variances of q and p
        return total + 0.5 * self.features * (ratio - 1 - ratio.log()).sum()  # eq. (4)


def _normal(mean: Tensor, variance: Tensor) -> Distribution:
    scale = variance.sqrt().expand_as(mean)
    return Independent(Normal(mean, scale, validate_args=False), 1, validate_args=False)
