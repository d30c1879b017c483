"""The laws of latent-variable models: modules with ``encode``, ``decode`` and the evidence lower bound ``log_prob``.

``encode(x)`` is the approximate posterior q(z | x), ``decode(z)`` the likelihood p(x | z); the prior p(z) is what
``prior()`` gives, or else the standard normal distribution. The module's loss, bounds and samples are computed here a
second time from these three alone. A conditional module is conditioned on what the examples give.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import Batch, UsageError, conditioned, is_conditional, log_likelihood
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import doubled, first, repeated, seeded, tensors_of, total

ROWS = 4
DRAWS = 2000
ROUNDS = 5
SIGMAS = 6.0
"""How many standard errors apart two estimates of the same number may be."""
SLACK = 1e-6
FINE = 1e-3
"""How many nats an integral may move when its grid is made twice as fine."""
CHUNK = 8192
"""How many points of a grid are decoded at once."""
REACH = 8.0
"""How far the quadrature over the latent space reaches, in standard deviations of the prior on either side."""


@law
def encoding_is_a_distribution(module: Any, batch: Batch) -> Measured:
    """Each example has a posterior with finite parameters, positive std and a finite density at its own draws."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        posterior = conditioned(module, batch).encode(batch.x)
        if not isinstance(posterior, Distribution):
            return 1, 0, f"encode gives a {type(posterior).__name__}, which is not a distribution"
        z = posterior.sample()
        density, std = _per_row(posterior.log_prob(z), len(batch)), posterior.stddev
    parts = [*tensors_of(posterior), density]
    bad = sum(int((~part.isfinite()).sum()) for part in parts) + int((~(std > 0)).sum())
    return bad, 0, f"{len(z)} posteriors over {z[0].numel()} latent values; smallest std {float(std.min()):.3g}"


@law
def posterior_integrates_to_one(module: Any, batch: Batch) -> Measured | None:
    """The density of each posterior is normalized, by an integral over one or two latent dimensions."""
    mass = _View(module, first(batch, ROWS)).mass_of_posterior()
    if mass is None:
        return None
    furthest = float(mass[(mass - 1).abs().argmax()])
    return abs(furthest - 1), 10 * FINE, f"of {len(mass)} posteriors the integral furthest from 1 is {furthest:.6g}"


@law
def kl_is_not_negative(module: Any, batch: Batch) -> Measured | None:
    """The term ``kl`` of the loss, a mean of Kullback-Leibler divergences, is at least zero."""
    found = _kl(module, batch)
    if found is None:
        return None
    kl, error = found
    return -kl, SIGMAS * error + SLACK, f"the kl is {kl:.6g} nats"


@law
def kl_agrees_with_draws(module: Any, batch: Batch) -> Measured | None:
    """The term ``kl`` of the loss is the mean of log q(z | x) - log p(z) over draws of q."""
    found = _kl(module, batch)
    if found is None:
        return None
    view = _View(module, batch)
    return _agree(*found, *view.average(view.log_ratio(DRAWS)), "the kl", "its mean over draws")


@law
def terms_sum_to_the_negative_bound(module: Any, batch: Batch) -> Measured | None:
    """The loss is the negative ELBO, -E [log p(x | z) + log p(z) - log q(z | x)], computed from scratch.

    That of a module with ``importance_samples`` is the importance-weighted bound with so many.
    """
    if not hasattr(module, "loss"):
        return None
    view = _View(module, few := first(batch, ROWS))
    _, many = doubled(module, repeated(few, DRAWS // 4))  # a loss is a mean over examples, so this averages its draws
    with torch.no_grad():
        losses = torch.stack([total(view.plain.loss(many)) for _ in range(4 * ROUNDS)])
    mean, error = _mean(losses)
    count = int(getattr(module, "importance_samples", 1))
    weights = torch.cat([view.log_weights(DRAWS // count * count) for _ in range(ROUNDS)])
    bound = weights.reshape(-1, count, weights.shape[-1]).logsumexp(1) - math.log(count)
    return _agree(-mean, error, *view.average(bound), "minus the loss", "the bound")


@law
def importance_bound_agrees(module: Any, batch: Batch) -> Measured:
    """``log_prob`` with K samples is log 1/K sum p(x, z_k) / q(z_k | x) on average, computed from scratch."""
    view = _View(module, first(batch, ROWS))
    count, times = 16, DRAWS // 10
    own = torch.stack([view.claimed(count) for _ in range(times)])
    weights = view.log_weights(count * times).reshape(times, count, -1)
    mine = weights.logsumexp(1) - math.log(count)
    return _agree(
        *view.average(own), *view.average(mine), f"log_prob with {count} samples", "the importance-weighted bound"
    )


@law
def bound_tightens_with_samples(module: Any, batch: Batch) -> Measured:
    """More samples raise the bound, or leave it where it is exact already."""
    view = _View(module, first(batch, ROWS))
    loose, loose_error = view.average(torch.stack([view.claimed(1) for _ in range(DRAWS // 4)]))
    tight, tight_error = view.average(torch.stack([view.claimed(64) for _ in range(DRAWS // 40)]))
    bound = SIGMAS * math.hypot(loose_error, tight_error) + SLACK
    return loose - tight, bound, f"log_prob is {loose:.6g} with 1 sample and {tight:.6g} with 64"


@law
def bounds_stay_below_the_evidence(module: Any, batch: Batch) -> Measured | None:
    """ELBO <= importance-weighted bound <= exact log p(x), by an integral over one or two latent dimensions."""
    view = _View(module, first(batch, ROWS))
    exact = view.evidence()
    if exact is None:
        return None
    evidence = float(exact.mean())
    elbo, elbo_error = view.average(view.log_weights(DRAWS))
    tight, tight_error = view.average(torch.stack([view.claimed(64) for _ in range(DRAWS // 20)]))
    above = max(elbo - tight - SIGMAS * math.hypot(elbo_error, tight_error), tight - evidence - SIGMAS * tight_error)
    detail = f"ELBO {elbo:.6g}, with 64 samples {tight:.6g}, log-evidence {evidence:.6g}; above by more than noise"
    return max(above, 0.0), FINE, f"{detail}: {max(above, 0.0):.3g}"


@law
def samples_have_the_moments_of_the_model(module: Any, batch: Batch) -> Measured | None:
    """Mean and variance of ``sample`` are those that prior and likelihood imply, value by value."""
    if not hasattr(module, "sample"):
        return None
    view = _View(module, first(batch, 1))
    count = 10 * DRAWS
    with torch.no_grad():
        drawn = view.module.sample(count, generator=seeded(0)).double().flatten(1)
    mean, variance, mean_error, variance_error = view.moments()
    off = (drawn - mean).square()
    errors = ((drawn.var(0) / count).sqrt(), (off.var(0) / count).sqrt())
    gaps = (
        (drawn.mean(0) - mean).abs() / (errors[0] + mean_error + SLACK),
        (off.mean(0) - variance).abs() / (errors[1] + variance_error + SLACK * (1 + variance)),
    )
    worst = torch.stack(gaps)
    which = "mean" if float(gaps[0].max()) >= float(gaps[1].max()) else "variance"
    return (
        float(worst.max()),
        SIGMAS,
        f"{count} samples; the worst {which} is {float(worst.max()):.2f} standard errors off",
    )


LAWS = (
    encoding_is_a_distribution,
    posterior_integrates_to_one,
    kl_is_not_negative,
    kl_agrees_with_draws,
    terms_sum_to_the_negative_bound,
    importance_bound_agrees,
    bound_tightens_with_samples,
    bounds_stay_below_the_evidence,
    samples_have_the_moments_of_the_model,
)


def check_latent(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of latent-variable models in a module with ``encode``, ``decode`` and ``log_prob``."""
    missing = [method for method in ("encode", "decode", "log_prob") if not callable(getattr(module, method, None))]
    if missing:
        raise UsageError(f"a latent-variable model has encode, decode and log_prob; {', '.join(missing)} is missing")
    return outcomes(LAWS, module, batch)


class _View:
    """A module's prior, posterior and likelihood on a few examples, in double precision."""

    def __init__(self, module: Any, batch: Batch) -> None:
        self.plain: Any
        self.plain, self.batch = doubled(module, batch)
        self.module, self.x = conditioned(self.plain, self.batch), self.batch.x
        with torch.no_grad():
            self.posterior: Distribution = self.module.encode(self.x)
            self.size = self.posterior.sample().shape[1:]
            self.prior = _prior(self.module, self.size)

    def claimed(self, samples: int) -> Tensor:
        """The module's own ``log_prob`` with this many samples, (B,)."""
        with torch.no_grad():
            bound = log_likelihood(self.module, self.x, samples=samples)
        return bound.double()

    def log_ratio(self, draws: int) -> Tensor:
        """log q(z | x) - log p(z) at draws of q, (draws, B)."""
        return self._ratio(self._draw(draws))

    def log_weights(self, draws: int) -> Tensor:
        """log p(x | z) + log p(z) - log q(z | x) at draws of q, (draws, B)."""
        z = self._draw(draws)
        return self.log_likelihood(z) - self._ratio(z)

    def log_likelihood(self, z: Tensor) -> Tensor:
        """log p(x | z) for z (draws, B, ...), (draws, B)."""
        draws, rows = z.shape[:2]
        with torch.no_grad():
            likelihood = self.module.decode(z.reshape(draws * rows, *self.size))
            shape = (*likelihood.batch_shape, *likelihood.event_shape)
            x = self.x.expand(draws, *self.x.shape).reshape(shape)
            return _per_row(likelihood.log_prob(x), draws * rows).reshape(draws, rows)

    def evidence(self) -> Tensor | None:
        """The log-evidence log p(x) by quadrature, (B,), of one or two latent dimensions if the grid is fine enough."""
        if self.size.numel() > 2:
            return None
        if is_conditional(self.module) and len(self.x) > 1:  # each example has a prior of its own
            rows = [_View(self.plain, self.batch.select(torch.tensor([i]))).evidence() for i in range(len(self.x))]
            known = [row for row in rows if row is not None]
            return torch.cat(known) if len(known) == len(rows) else None
        coarse, fine = (self._quadrature(points) for points in ((101, 201) if self.size.numel() == 2 else (1001, 2001)))
        return fine if float((coarse - fine).abs().max()) < FINE else None

    def mass_of_posterior(self) -> Tensor | None:
        """The integral of each posterior by quadrature, (B,), of one or two dimensions if the grid is fine enough."""
        if self.size.numel() > 2 or not self.posterior.has_rsample:
            return None
        coarse, fine = (self._mass(points) for points in ((101, 201) if self.size.numel() == 2 else (1001, 2001)))
        return fine if float((coarse - fine).abs().max()) < FINE else None

    def moments(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean and variance of x under the model, with the standard errors of both; the latter are 0 by quadrature."""
        with torch.no_grad():
            if self.size.numel() <= 2:
                z, cell = _grid(self.prior, self.size, 101 if self.size.numel() == 2 else 2001)
                weight = (_per_row(self.prior.log_prob(z), len(z)) + cell).softmax(0).unsqueeze(1)
                likelihood = self.module.decode(z)
                means, variances = likelihood.mean.flatten(1), likelihood.variance.flatten(1)
                mean = (weight * means).sum(0)
                variance = (weight * (variances + (means - mean).square())).sum(0)
                return mean, variance, torch.zeros_like(mean), torch.zeros_like(mean)
            count = 10 * DRAWS
            likelihood = self.module.decode(self.prior.sample(torch.Size([count])).reshape(count, *self.size))
            means, variances = likelihood.mean.flatten(1), likelihood.variance.flatten(1)
            mean = means.mean(0)
            squares = variances + (means - mean).square()  # the law of total variance
            return mean, squares.mean(0), (means.var(0) / count).sqrt(), (squares.var(0) / count).sqrt()

    def average(self, values: Tensor) -> tuple[float, float]:
        """The mean over examples of (draws, B) with its standard error."""
        return _mean(values.mean(1))

    def _draw(self, draws: int) -> Tensor:
        with torch.no_grad():
            return self.posterior.sample(torch.Size([draws]))

    def _ratio(self, z: Tensor) -> Tensor:
        draws, rows = z.shape[:2]
        with torch.no_grad():
            posterior = self.posterior.log_prob(z).reshape(draws, rows, -1).sum(-1)
            prior = self.prior.log_prob(z).reshape(draws, rows, -1).sum(-1)
        return posterior - prior

    def _quadrature(self, points: int) -> Tensor:
        z, cell = _grid(self.prior, self.size, points)
        with torch.no_grad():
            joint = torch.cat([self._joint(part) for part in torch.tensor_split(z, math.ceil(len(z) / CHUNK))])
        return (joint + cell).logsumexp(0)

    def _mass(self, points: int) -> Tensor:
        with torch.no_grad():
            mean, std = self.posterior.mean, self.posterior.stddev
            unit, cell = _unit_grid(self.size, points)
            density = self.posterior.log_prob(mean + std * unit.unsqueeze(1)).reshape(len(unit), len(mean), -1).sum(-1)
            return (density.logsumexp(0) + cell + std.log().flatten(1).sum(1)).exp()

    def _joint(self, z: Tensor) -> Tensor:
        """log p(x | z) + log p(z) at points of a grid, (points, B)."""
        likelihood = self.module.decode(z)
        shape = (*likelihood.batch_shape, *likelihood.event_shape)
        parts = [_per_row(likelihood.log_prob(x.expand(len(z), *x.shape).reshape(shape)), len(z)) for x in self.x]
        return torch.stack(parts, 1) + _per_row(self.prior.log_prob(z), len(z)).unsqueeze(1)


def _prior(module: Any, size: torch.Size) -> Distribution:
    if callable(getattr(module, "prior", None)):
        given: Distribution = module.prior()
        return given
    zeros = torch.zeros(size, dtype=torch.float64)
    return Independent(Normal(zeros, torch.ones_like(zeros)), len(size))


@torch.no_grad()
def _grid(prior: Distribution, size: torch.Size, points: int) -> tuple[Tensor, float]:
    """Points of a regular grid over the latent space and the logarithm of the cell that each stands for."""
    unit, cell = _unit_grid(size, points)
    return prior.mean + prior.stddev * unit, cell + float(prior.stddev.log().sum())


def _unit_grid(size: torch.Size, points: int) -> tuple[Tensor, float]:
    """The same for standard deviations of 1 around 0."""
    line = torch.linspace(-REACH, REACH, points, dtype=torch.float64)
    unit = torch.cartesian_prod(*[line] * size.numel()).reshape(-1, *size)
    return unit, size.numel() * math.log(2 * REACH / (points - 1))


def _per_row(values: Tensor, rows: int) -> Tensor:
    """Log-densities summed over everything but the rows."""
    return values.reshape(rows, -1).sum(-1)


def _mean(values: Tensor) -> tuple[float, float]:
    return float(values.mean()), math.sqrt(float(values.var()) / len(values))


def _agree(left: float, left_error: float, right: float, right_error: float, first_name: str, second: str) -> Measured:
    bound = SIGMAS * math.hypot(left_error, right_error) + SLACK * (1 + abs(right))
    return abs(left - right), bound, f"{first_name} is {left:.6g}, {second} is {right:.6g}"


def _kl(module: Any, batch: Batch) -> tuple[float, float] | None:
    """The term ``kl`` of the loss and its standard error, which is 0 where it is in closed form."""
    if not hasattr(module, "loss"):
        return None
    module, batch = doubled(module, batch)
    with torch.no_grad():
        if "kl" not in module.loss(batch):
            return None
        drawn = torch.stack([module.loss(batch)["kl"] for _ in range(DRAWS // 10)])
    return _mean(drawn)
