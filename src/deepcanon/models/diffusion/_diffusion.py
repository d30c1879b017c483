"""What all diffusion models share: noise added level by level, its exact posterior, and the bound on the evidence."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Literal, NamedTuple, Self, TypeVar, get_args

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import Batch, LikelihoodKind, Model, Support, Terms, UsageError, drawing_from
from deepcanon.core.checks import at_least, flat, of_reals, one_of, only_real
from deepcanon.nn.rescale import Rescale, mean_and_std

B = TypeVar("B", bound=Batch)

NoiseSchedule = Literal["linear", "cosine"]

CHUNK = 2**18
"""How many numbers the bound sends through the network at once, so that many levels fit into memory."""


def noise_variances(schedule: NoiseSchedule, levels: int) -> Tensor:
    r"""The variances :math:`\beta_1 \dots \beta_T` of the noise that each level adds, in double precision.

    ``linear`` rises from 0.0001 to 0.02 over 1000 levels; with fewer levels each adds more, so that the sum stays.
    ``cosine`` is :math:`\beta_t = \min(1 - \bar\alpha_t / \bar\alpha_{t-1}, 0.999)` with :math:`\bar\alpha_t \propto
    \cos^2(\frac{t / T + 0.008}{1.008} \cdot \frac\pi2)`.

    References:
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239
        | Improved Denoising Diffusion Probabilistic Models (Nichol and Dhariwal, 2021),
          https://arxiv.org/abs/2102.09672

    >>> noise_variances("linear", 1000)[[0, -1]].tolist()
    [0.0001, 0.02]
    """
    if schedule == "linear":
        scale = 1000 / levels
        return torch.linspace(1e-4 * scale, 0.02 * scale, levels, dtype=torch.float64).clamp_max(0.999)
    time = torch.arange(levels + 1, dtype=torch.float64) / levels
    left = ((time + 0.008) / 1.008 * math.pi / 2).cos().square()
    return (1 - left[1:] / left[:-1]).clamp_max(0.999)


class Levels(NamedTuple):
    r"""What the noise schedule says of a level t: :math:`\alpha_t`, :math:`\beta_t = 1 - \alpha_t`, and of all noise
    up to it :math:`\bar\alpha_t` and :math:`\bar\beta_t = 1 - \bar\alpha_t`; level 0 is the data."""

    beta: Tensor
    alpha: Tensor
    alpha_bar: Tensor
    beta_bar: Tensor

    def at(self, t: Tensor) -> Levels:
        """The values at these levels, as columns."""
        return Levels(*(values[t].unsqueeze(-1) for values in self))


class Diffusion(Model[B]):
    r"""Data are destroyed by Gaussian noise in T small steps, and a model learns the way back.

    .. math:: q(x_t \mid x_{t-1}) = N(\sqrt{\alpha_t} \, x_{t-1}, \beta_t I), \qquad
              q(x_t \mid x_0) = N(\sqrt{\bar\alpha_t} \, x_0, (1 - \bar\alpha_t) I) \qquad (1)

    .. math:: q(x_{t-1} \mid x_t, x_0) = N\!\left( \frac{\sqrt{\bar\alpha_{t-1}} \beta_t}{1 - \bar\alpha_t} x_0 +
              \frac{\sqrt{\alpha_t} (1 - \bar\alpha_{t-1})}{1 - \bar\alpha_t} x_t, \; \tilde\beta_t I \right), \qquad
              \tilde\beta_t = \frac{1 - \bar\alpha_{t-1}}{1 - \bar\alpha_t} \beta_t \qquad (2)

    The way back is (2) with a guess of :math:`x_0` in its mean, and with the variance that is right for smooth data,
    :math:`p(x_{t-1} \mid x_t) = N(\mu, \beta_t I)`. A leaf gives it by ``guess``, the noise
    :math:`\hat\varepsilon` in :math:`x_t = \sqrt{\bar\alpha_t} x_0 + \sqrt{1 - \bar\alpha_t} \varepsilon`. The evidence
    is bounded by

    .. math:: \log p(x_0) \ge E_q \Big[ \log p(x_0 \mid x_1) - KL(q(x_T \mid x_0) \,\|\, p(x_T))
              - \sum_{t=2}^T KL(q(x_{t-1} \mid x_t, x_0) \,\|\, p(x_{t-1} \mid x_t)) \Big] \qquad (3)

    .. math:: KL(q(x_{t-1} \mid x_t, x_0) \,\|\, p(x_{t-1} \mid x_t)) = w_t \lVert \varepsilon - \hat\varepsilon
              \rVert^2 + \tfrac D2 \left( \frac{\tilde\beta_t}{\beta_t} - 1 - \log
              \frac{\tilde\beta_t}{\beta_t} \right),
              \qquad w_t = \frac{\beta_t}{2 \alpha_t (1 - \bar\alpha_t)} \qquad (4)

    Data are brought to zero mean and unit spread first; ``log_prob`` counts that in, and :math:`x_1 \dots x_T` live on
    that scale.

    References:
        | Deep Unsupervised Learning using Nonequilibrium Thermodynamics (Sohl-Dickstein et al., 2015),
          https://arxiv.org/abs/1503.03585
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239
        | Denoising Diffusion Implicit Models (Song et al., 2021), https://arxiv.org/abs/2010.02502
    """

    likelihood_kind: LikelihoodKind = "lower bound"
    variances: Tensor

    def __init__(self, features: int, levels: int, noise: NoiseSchedule) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(2, levels=levels)
        one_of(get_args(NoiseSchedule), noise=noise)
        self.features = features
        self.levels = levels
        self.to_standard = Rescale(features)
        variances = torch.cat([torch.zeros(1, dtype=torch.float64), noise_variances(noise, levels)])
        self.register_buffer("variances", variances.to(torch.get_default_dtype()), persistent=False)

    @abstractmethod
    def guess(self, x: Tensor, t: Tensor, at: Levels) -> Tensor:
        """The guess of the noise in x, (B, features), at levels t, (B,) or (1,), of which the table says ``at``."""

    def noise_in(self, x: Tensor, t: Tensor) -> Tensor:
        """The guess of the noise in examples of these levels: x (B, features), t (B,) or (1,)."""
        return self.guess(x, t, self.table().at(t))

    @property
    def support(self) -> Support:
        return "real"

    def prepare(self, data: Iterable[B]) -> None:
        """Take the center and the spread of the data, against which the noise is measured."""
        center, spread = mean_and_std(of_reals(data, self.name()))
        if spread > 0:
            self.to_standard.set(1 / spread, -center / spread)

    def table(self) -> Levels:
        """The noise schedule, each value (levels + 1,), without differences that would lose digits."""
        log_alpha_bar = torch.log1p(-self.variances).cumsum(0)
        return Levels(self.variances, 1 - self.variances, log_alpha_bar.exp(), -torch.expm1(log_alpha_bar))

    def step(self, x: Tensor, t: Tensor) -> Distribution:
        """q(x_t | x_{t-1}), the noise of one level."""
        at = self.table().at(t)
        return _normal(at.alpha.sqrt() * torch.where(t.unsqueeze(-1) == 1, self.to_standard(x), x), at.beta)

    def noised(self, x0: Tensor, t: Tensor) -> Distribution:
        """q(x_t | x_0), the noise of all levels up to t."""
        at = self.table().at(t)
        return _normal(at.alpha_bar.sqrt() * self._standard(x0), at.beta_bar)  # eq. (1)

    def posterior(self, x: Tensor, x0: Tensor, t: Tensor) -> Distribution:
        """q(x_{t-1} | x_t, x_0) for t of at least 2."""
        return self._posterior(x, self._standard(x0), t)

    def reverse(self, x: Tensor, t: Tensor) -> Distribution:
        """p(x_{t-1} | x_t), one step back; at t = 1 it is the distribution of the data, in their own units."""
        at = self.table().at(t)
        guess = (x - at.beta_bar.sqrt() * self.guess(x, t, at)) / at.alpha_bar.sqrt()
        mean = self._posterior(x, guess, t).mean
        last = (t == 1).unsqueeze(-1)
        unit = torch.where(last, 1 / self.to_standard.scale, 1.0)
        return _normal(torch.where(last, self._to_data(mean), mean), at.beta * unit**2)

    def prior(self) -> Distribution:
        """p(x_T), pure noise."""
        zeros = self.to_standard.shift
        return _normal(torch.zeros_like(zeros), torch.ones_like(zeros))

    def log_prob(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The bound (3) in nats: with one draw at every level, or at ``samples`` levels drawn for each example."""
        only_real(x, self.name())
        told = self._told(context, len(x))
        with drawing_from(generator):
            return -torch.stack(list(told.bound(x, samples).values())).sum(0)

    def metrics(self, batch: B) -> Terms:
        """The bound from a few levels for each example, which is enough for a mean over many."""
        return {"nll": -self.log_prob(batch.x, samples=2).mean()}

    def bound(self, x: Tensor, samples: int | None = None) -> Terms:
        """The parts of minus the bound (3), each (B,): ``prior``, ``denoising`` and ``reconstruction``."""
        x = self._standard(x)
        table = self.table()
        last = table.at(torch.tensor([self.levels], device=x.device))
        spread = last.alpha_bar * x.square() + last.beta_bar - 1 - last.beta_bar.log()
        ones = torch.ones(len(x), dtype=torch.long, device=x.device)
        constant = 0.5 * (2 * math.pi * table.beta[1]).log() - self.to_standard.scale.log()
        return {
            "prior": 0.5 * spread.sum(-1),
            "denoising": self._denoising(x, table, samples),
            "reconstruction": 0.5 / table.alpha[1] * self._error(x, ones, table) + self.features * constant,
        }

    @torch.no_grad()
    def sample(self, n: int, *, context: Tensor | None = None, generator: Generator | None = None) -> Tensor:
        """Examples drawn by going all the way back, level by level, (n, features)."""
        steps = torch.arange(self.levels, -1, -1, device=self.variances.device)
        return self._told(context, n)._walk(n, steps, 1.0, self.variances[steps[:-1]].sqrt(), generator)

    @torch.no_grad()
    def ddim(self, n: int, steps: int = 20, *, eta: float = 0.0, generator: Generator | None = None) -> Tensor:
        """Examples by fewer ``steps`` back; with ``eta`` 0 they are a function of the first noise alone."""
        at_least(1, steps=steps)
        places = torch.linspace(self.levels, 0, min(steps, self.levels) + 1, device=self.variances.device)
        return self._walk(n, places.round().long(), eta, None, generator)

    def _told(self, context: Tensor | None, count: int) -> Self:
        """The process of which so many examples have this context; here they can have none."""
        if context is not None:
            raise UsageError(f"{self.name()} has learned no classes, so it takes no context; guided_ddpm learns them")
        return self

    def _walk(self, n: int, steps: Tensor, eta: float, spread: Tensor | None, generator: Generator | None) -> Tensor:
        r"""From noise through these levels to data, (n, features).

        .. math:: x_s = \sqrt{\bar\alpha_s} \hat x_0 + \sqrt{1 - \bar\alpha_s - \sigma^2} \, \hat\varepsilon + \sigma z,
                  \qquad \sigma^2 = \eta^2 \frac{1 - \bar\alpha_s}{1 - \bar\alpha_t} \left( 1 -
                  \frac{\bar\alpha_t}{\bar\alpha_s} \right)

        With :math:`\eta = 1` and every level its mean is that of (2); ``spread`` then takes the place of the last σ.
        """
        table = self.table().at(steps)
        signal, noise = table.alpha_bar, table.beta_bar
        variance = eta**2 * noise[1:] / noise[:-1] * (1 - signal[:-1] / signal[1:])
        spread = variance.sqrt() if spread is None else spread
        keep = (signal[1:] / signal[:-1]).sqrt()  # of x_t
        change = (noise[1:] - variance).clamp_min(0).sqrt() - keep * noise[:-1].sqrt()  # by the guess of its noise
        x = self._noise(n, generator)
        for i, t in enumerate(steps[:-1].split(1)):
            guess = self.guess(x, t, Levels(*(values[i : i + 1] for values in table)))
            x = keep[i] * x + change[i] * guess
            if eta > 0:
                x = x + spread[i] * self._noise(n, generator)
        return self._to_data(x)

    def _noise(self, n: int, generator: Generator | None) -> Tensor:
        like = self.variances
        return torch.randn(n, self.features, generator=generator, device=like.device, dtype=like.dtype)

    def _standard(self, x: Tensor) -> Tensor:
        standard: Tensor = self.to_standard(flat(x, self.features))
        return standard

    def _to_data(self, x: Tensor) -> Tensor:
        return (x - self.to_standard.shift) / self.to_standard.scale

    def _posterior(self, x: Tensor, x0: Tensor, t: Tensor) -> Distribution:
        """Eq. (2) with x_0 on the standard scale."""
        table = self.table()
        at, before = table.at(t), table.at(t - 1)
        mean = (
            before.alpha_bar.sqrt() * at.beta / at.beta_bar * x0 + at.alpha.sqrt() * before.beta_bar / at.beta_bar * x
        )
        return _normal(mean, before.beta_bar / at.beta_bar * at.beta)

    def _error(self, x0: Tensor, t: Tensor, table: Levels) -> Tensor:
        """|ε - ε̂|² at these levels with one draw of noise for each example, (B,)."""
        at = table.at(t)
        noise = torch.randn_like(x0)
        gap = noise - self.guess(at.alpha_bar.sqrt() * x0 + at.beta_bar.sqrt() * noise, t, at)
        return gap.square().sum(-1)

    def _denoising(self, x0: Tensor, table: Levels, samples: int | None) -> Tensor:
        """The sum of the divergences (4) over the levels 2 to T, (B,).

        Levels are drawn in proportion to w_t times the error of the best linear guess for data of unit variance, and
        evenly over each example's draws; divided by these shares, the terms have the right expectation.
        """
        weights = table.beta[2:] / (2 * table.alpha[2:] * table.beta_bar[2:])  # w_2 ... w_T of eq. (4)
        shares = weights * table.alpha_bar[2:] / (weights * table.alpha_bar[2:]).sum()
        count = len(weights) if samples is None else samples
        factors = weights if samples is None else weights / (shares * count)
        total = x0.new_zeros(len(x0))
        for start in range(0, count, size := max(1, CHUNK // max(1, x0.numel()))):
            place = torch.arange(start, min(start + size, count), device=x0.device).repeat_interleave(len(x0))
            if samples is not None:
                spot = (place + torch.rand(len(place), device=x0.device)) / count
                place = torch.searchsorted(shares.cumsum(0), spot.to(shares.dtype)).clamp_max(len(shares) - 1)
            error = self._error(x0.repeat(len(place) // max(1, len(x0)), 1), place + 2, table)
            total = total + (factors[place] * error).reshape(-1, len(x0)).sum(0)
        ratio = table.beta_bar[1:-1] / table.beta_bar[2:]  # of the variances of q and p
        return total + 0.5 * self.features * (ratio - 1 - ratio.log()).sum()


def _normal(mean: Tensor, variance: Tensor) -> Distribution:
    scale = variance.sqrt().expand_as(mean)
    return Independent(Normal(mean, scale, validate_args=False), 1, validate_args=False)
