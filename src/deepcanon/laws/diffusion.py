"""The laws of diffusion models: the forward process, its posterior, the reverse process and the ELBO.

A module has ``timesteps`` T, and distributions at timesteps t given as whole numbers, (B,): ``step(x, t)`` is
q(x_t | x_{t-1}), ``noised(x0, t)`` is q(x_t | x_0), ``posterior(x, x0, t)`` is q(x_{t-1} | x_t, x_0) for t of at least
2, ``reverse(x, t)`` is p(x_{t-1} | x_t), ``prior()`` is p(x_T). The evidence lower bound (ELBO) that ``log_prob`` gives
is computed a second time from these.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from deepcanon.core import Batch, UsageError
from deepcanon.laws.continuous import settled
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import first, seeded

ROWS = 4
DRAWS = 4000
SIGMAS = 6.0
PARTS = ("step", "noised", "posterior", "reverse", "prior")


@law
def posterior_is_bayes_rule(module: Any, batch: Batch) -> Measured | None:
    """q(x_s | x_t, x_0) q(x_t | x_0) = q(x_t | x_s) q(x_s | x_0) with s = t - 1, at random points of every timestep."""
    module, batch = settled(module, batch)
    if module.timesteps < 2:
        return None
    t = torch.arange(2, module.timesteps + 1)
    x0 = batch.x.flatten(1)[torch.arange(len(t)) % len(batch.x)]
    with torch.no_grad():
        before = _drawn(module.noised(x0, t - 1))
        now = _drawn(module.step(before, t))
        left = module.posterior(now, x0, t).log_prob(before) + module.noised(x0, t).log_prob(now)
        right = module.step(before, t).log_prob(now) + module.noised(x0, t - 1).log_prob(before)
    gap = float((left - right).abs().max())
    return gap, 1e-6 * (1 + float(right.abs().max())), f"{len(t)} timesteps; the log-densities differ by {gap:.3g}"


@law
def noise_ends_at_the_prior(module: Any, batch: Batch) -> Measured:
    """At the last timestep almost nothing of the data is left: KL(q(x_T | x_0) || p(x_T)) is small for each value."""
    module, batch = settled(module, batch)
    x0 = batch.x.flatten(1)
    with torch.no_grad():
        end, start = module.noised(x0, torch.full((len(x0),), module.timesteps)), module.prior()
        drawn = end.sample(torch.Size([DRAWS // 10]))
        kl = float((end.log_prob(drawn) - start.log_prob(drawn)).mean()) / x0.shape[1]
    return kl, 0.1, f"{kl:.3g} nats of each value are left at timestep {module.timesteps}"


@law
def log_prob_is_the_evidence_lower_bound(module: Any, batch: Batch) -> Measured | None:
    """``log_prob`` is E log p(x_0 ... x_T) - log q(x_1 ... x_T | x_0) on average, computed along drawn paths."""
    if not hasattr(module, "log_prob"):
        return None
    module, batch = settled(module, batch)
    few = first(batch, ROWS).x
    many = few.repeat(DRAWS, *[1] * (few.ndim - 1))
    with torch.no_grad():
        claimed = module.log_prob(many).reshape(DRAWS, -1).mean(1)
        defined = _along_paths(module, many.flatten(1)).reshape(DRAWS, -1).mean(1)
    error = math.sqrt(float(claimed.var() + defined.var()) / DRAWS)
    gap = abs(float(claimed.mean() - defined.mean()))
    words = f"log_prob is {float(claimed.mean()):.6g}, the ELBO along {DRAWS} paths {float(defined.mean()):.6g}"
    return gap, SIGMAS * error + 1e-6, words


@law
def samples_follow_the_reverse_process(module: Any, batch: Batch) -> Measured | None:
    """``sample`` has the mean and the variance of the reverse process, from the prior by steps of ``reverse``."""
    if not hasattr(module, "sample"):
        return None
    module, batch = settled(module, batch)
    with torch.no_grad():
        own = module.sample(DRAWS, generator=seeded(0)).flatten(1)
        x = module.prior().sample(torch.Size([DRAWS]))
        for t in range(module.timesteps, 0, -1):
            x = _drawn(module.reverse(x, torch.full((DRAWS,), t)))
    pairs = ((own, x), ((own - x.mean(0)).square(), (x - x.mean(0)).square()))
    errors = [((left.var(0) + right.var(0)) / DRAWS).sqrt() + 1e-12 for left, right in pairs]
    gaps = [(left.mean(0) - right.mean(0)).abs() for left, right in pairs]
    worst = float((torch.stack(gaps) / torch.stack(errors)).max())
    return worst, SIGMAS, f"{DRAWS} samples; the worst mean or variance is {worst:.2f} standard errors off"


LAWS = (
    posterior_is_bayes_rule,
    noise_ends_at_the_prior,
    log_prob_is_the_evidence_lower_bound,
    samples_follow_the_reverse_process,
)


def check_diffusion(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of diffusion models in any module that gives the distributions of its steps."""
    missing = [part for part in PARTS if not callable(getattr(module, part, None))]
    missing += [] if isinstance(getattr(module, "timesteps", None), int) else ["timesteps"]
    if missing:
        raise UsageError(f"a diffusion process has timesteps, {', '.join(PARTS)}; {', '.join(missing)} is missing")
    return outcomes(LAWS, module, batch)


def _along_paths(module: Any, x: Tensor) -> Tensor:
    """log p(x_0 ... x_T) - log q(x_1 ... x_T | x_0) along one drawn path for each example, (B,)."""
    total = torch.zeros(len(x), dtype=x.dtype)
    for t in range(1, module.timesteps + 1):
        time = torch.full((len(x),), t)
        ahead = module.step(x, time)
        there = _drawn(ahead)
        total += module.reverse(there, time).log_prob(x) - ahead.log_prob(there)
        x = there
    start: Tensor = module.prior().log_prob(x)
    return total + start


def _drawn(distribution: Distribution) -> Tensor:
    drawn: Tensor = distribution.sample()
    return drawn
