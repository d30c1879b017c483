"""Diffusion models: the forward process that adds noise, its exact posterior, the reverse process and the ELBO."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import Batch, Density, LikelihoodKind, Support, Terms, drawing_from
from deepcanon.core.checks import at_least, flat, of_reals, one_of
from deepcanon.nn.rescale import Rescale, mean_and_std

B = TypeVar("B", bound=Batch)

ScheduleName = Literal["linear", "cosine"]

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


class Diffusion(Density[B]):
    r"""A diffusion model: a forward process adds Gaussian noise in T timesteps, and a learned one reverses it.

    The forward process q and its posterior are known in closed form.

    .. math:: q(x_t \mid x_{t-1}) = N(\sqrt{\alpha_t} \, x_{t-1}, \beta_t I), \qquad
              q(x_t \mid x_0) = N(\sqrt{\bar\alpha_t} \, x_0, (1 - \bar\alpha_t) I) \qquad (1)

    .. math:: q(x_{t-1} \mid x_t, x_0) = N\!\left( \frac{\sqrt{\bar\alpha_{t-1}} \beta_t}{1 - \bar\alpha_t} x_0 +
              \frac{\sqrt{\alpha_t} (1 - \bar\alpha_{t-1})}{1 - \bar\alpha_t} x_t, \; \tilde\beta_t I \right), \qquad
              \tilde\beta_t = \frac{1 - \bar\alpha_{t-1}}{1 - \bar\alpha_t} \beta_t \qquad (2)

    The reverse process has as its mean that of (2) with a prediction of :math:`x_0`, and the variance that is right for
    smooth data: :math:`p(x_{t-1} \mid x_t) = N(\mu, \beta_t I)`. A leaf gives it by ``predicted_noise``, the
    :math:`\hat\varepsilon` in :math:`x_t = \sqrt{\bar\alpha_t} x_0 + \sqrt{1 - \bar\alpha_t} \varepsilon`. The evidence
    lower bound (ELBO) is

    .. math:: \log p(x_0) \ge E_q \Big[ \log p(x_0 \mid x_1) - KL(q(x_T \mid x_0) \,\|\, p(x_T))
              - \sum_{t=2}^T KL(q(x_{t-1} \mid x_t, x_0) \,\|\, p(x_{t-1} \mid x_t)) \Big] \qquad (3)

    .. math:: KL(q(x_{t-1} \mid x_t, x_0) \,\|\, p(x_{t-1} \mid x_t)) = w_t \lVert \varepsilon - \hat\varepsilon
              \rVert^2 + \tfrac D2 \left( \frac{\tilde\beta_t}{\beta_t} - 1 - \log
              \frac{\tilde\beta_t}{\beta_t} \right),
              \qquad w_t = \frac{\beta_t}{2 \alpha_t (1 - \bar\alpha_t)} \qquad (4)

    Data are standardized to zero mean and unit variance first; ``log_prob`` counts that in, and :math:`x_1 \dots x_T`
    live on that scale.

    References:
        | Deep Unsupervised Learning using Nonequilibrium Thermodynamics (Sohl-Dickstein et al., 2015),
          https://arxiv.org/abs/1503.03585
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239
        | Denoising Diffusion Implicit Models (Song et al., 2021), https://arxiv.org/abs/2010.02502
    """

    likelihood_kind: LikelihoodKind = "lower bound"
    measured_samples = 2  # the ELBO from a few timesteps for each example is enough for a mean over many
    least_draws = 4096  # but not over few: timesteps differ by so much that it would come out nats above the truth
    betas: Tensor

    def __init__(self, features: int, timesteps: int, noise: ScheduleName) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(2, timesteps=timesteps)
        one_of(get_args(ScheduleName), noise=noise)
        self.features = features
        self.timesteps = timesteps
        self.to_standard = Rescale(features)
        betas = torch.cat([torch.zeros(1, dtype=torch.float64), beta_schedule(noise, timesteps)])
        self.register_buffer("betas", betas.to(torch.get_default_dtype()), persistent=False)

    @abstractmethod
    def predicted_noise(self, x: Tensor, t: Tensor, at: NoiseSchedule | None = None) -> Tensor:
        """The predicted noise in x, (B, features), at timesteps t, (B,) or (1,); ``at`` is the schedule there."""

    @property
    def support(self) -> Support:
        return "real"

    def prepare(self, data: Iterable[B]) -> None:
        """Take the mean and the standard deviation of the data, against which the noise is measured."""
        mean, std = mean_and_std(of_reals(data, self.name()))
        if std > 0:
            self.to_standard.set(1 / std, -mean / std)

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
        at = self.noise_schedule().at(t)
        x0 = (x - at.beta_bar.sqrt() * self.predicted_noise(x, t, at)) / at.alpha_bar.sqrt()
        mean = self._posterior(x, x0, t).mean
        last = (t == 1).unsqueeze(-1)
        unit = torch.where(last, 1 / self.to_standard.scale, 1.0)
        return _normal(torch.where(last, self._to_data(mean), mean), at.beta * unit**2)

    def prior(self) -> Distribution:
        """p(x_T), pure noise."""
        zeros = self.to_standard.shift
        return _normal(torch.zeros_like(zeros), torch.ones_like(zeros))

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        """The ELBO (3): with one draw at every timestep, or at ``samples`` timesteps drawn for each example."""
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
            "reconstruction": 0.5 / schedule.alpha[1] * self._error(x, ones, schedule) + self.features * constant,
        }

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        """Examples drawn by the reverse process through all timesteps (ancestral sampling), (n, features)."""
        t = torch.arange(self.timesteps, -1, -1, device=self.betas.device)
        return self._denoised(n, t, 1.0, self.betas[t[:-1]].sqrt(), generator)

    @torch.no_grad()
    def ddim(self, n: int, steps: int = 20, *, eta: float = 0.0, generator: Generator | None = None) -> Tensor:
        """Examples by DDIM sampling in fewer ``steps``; with ``eta`` 0 they are a function of the first noise alone."""
        at_least(1, steps=steps)
        t = torch.linspace(self.timesteps, 0, min(steps, self.timesteps) + 1, device=self.betas.device)
        return self._denoised(n, t.round().long(), eta, None, generator)

    def _denoised(self, n: int, t: Tensor, eta: float, std: Tensor | None, generator: Generator | None) -> Tensor:
        r"""The reverse process from noise through these timesteps to data, (n, features).

        .. math:: x_s = \sqrt{\bar\alpha_s} \hat x_0 + \sqrt{1 - \bar\alpha_s - \sigma^2} \, \hat\varepsilon + \sigma z,
                  \qquad \sigma^2 = \eta^2 \frac{1 - \bar\alpha_s}{1 - \bar\alpha_t} \left( 1 -
                  \frac{\bar\alpha_t}{\bar\alpha_s} \right)

        With :math:`\eta = 1` and every timestep its mean is that of (2); ``std`` then takes the place of the last σ.
        """
        schedule = self.noise_schedule().at(t)
        signal, noise = schedule.alpha_bar, schedule.beta_bar
        variance = eta**2 * noise[1:] / noise[:-1] * (1 - signal[:-1] / signal[1:])
        std = variance.sqrt() if std is None else std
        keep = (signal[1:] / signal[:-1]).sqrt()  # of x_t
        change = (noise[1:] - variance).clamp_min(0).sqrt() - keep * noise[:-1].sqrt()  # by the predicted noise
        x = self._noise(n, generator)
        for i, now in enumerate(t[:-1].split(1)):
            predicted = self.predicted_noise(x, now, NoiseSchedule(*(values[i : i + 1] for values in schedule)))
            x = keep[i] * x + change[i] * predicted
            if eta > 0:
                x = x + std[i] * self._noise(n, generator)
        return self._to_data(x)

    def _noise(self, n: int, generator: Generator | None) -> Tensor:
        like = self.betas
        return torch.randn(n, self.features, generator=generator, device=like.device, dtype=like.dtype)

    def _standard(self, x: Tensor) -> Tensor:
        standard: Tensor = self.to_standard(flat(x, self.features))
        return standard

    def _to_data(self, x: Tensor) -> Tensor:
        return (x - self.to_standard.shift) / self.to_standard.scale

    def _posterior(self, x: Tensor, x0: Tensor, t: Tensor) -> Distribution:
        """Eq. (2) with x_0 on the standard scale."""
        schedule = self.noise_schedule()
        at, before = schedule.at(t), schedule.at(t - 1)
        mean = (
            before.alpha_bar.sqrt() * at.beta / at.beta_bar * x0 + at.alpha.sqrt() * before.beta_bar / at.beta_bar * x
        )
        return _normal(mean, before.beta_bar / at.beta_bar * at.beta)

    def _error(self, x0: Tensor, t: Tensor, schedule: NoiseSchedule) -> Tensor:
        """|ε - ε̂|² at these timesteps with one draw of noise for each example, (B,)."""
        at = schedule.at(t)
        noise = torch.randn_like(x0)
        error = noise - self.predicted_noise(at.alpha_bar.sqrt() * x0 + at.beta_bar.sqrt() * noise, t, at)
        return error.square().sum(-1)

    def _denoising(self, x0: Tensor, schedule: NoiseSchedule, samples: int | None) -> Tensor:
        """The sum of the divergences (4) over the timesteps 2 to T, (B,).

        Timesteps are drawn by importance sampling, with probabilities in proportion to w_t times the error of the best
        linear predictor for data of unit variance, stratified over each example's draws; the terms are divided by these
        probabilities, so that they have the right expectation.
        """
        weights = schedule.beta[2:] / (2 * schedule.alpha[2:] * schedule.beta_bar[2:])  # w_2 ... w_T of eq. (4)
        probabilities = weights * schedule.alpha_bar[2:] / (weights * schedule.alpha_bar[2:]).sum()
        count = len(weights) if samples is None else samples
        factors = weights if samples is None else weights / (probabilities * count)
        total = x0.new_zeros(len(x0))
        for start in range(0, count, size := max(1, CHUNK // max(1, x0.numel()))):
            index = torch.arange(start, min(start + size, count), device=x0.device).repeat_interleave(len(x0))
            if samples is not None:
                uniform = ((index + torch.rand(len(index), device=x0.device)) / count).to(probabilities.dtype)
                index = torch.searchsorted(probabilities.cumsum(0), uniform).clamp_max(len(probabilities) - 1)
            error = self._error(x0.repeat(len(index) // max(1, len(x0)), 1), index + 2, schedule)
            total = total + (factors[index] * error).reshape(-1, len(x0)).sum(0)
        ratio = schedule.beta_bar[1:-1] / schedule.beta_bar[2:]  # of the variances of q and p
        return total + 0.5 * self.features * (ratio - 1 - ratio.log()).sum()  # eq. (4)


def _normal(mean: Tensor, variance: Tensor) -> Distribution:
    scale = variance.sqrt().expand_as(mean)
    return Independent(Normal(mean, scale, validate_args=False), 1, validate_args=False)
