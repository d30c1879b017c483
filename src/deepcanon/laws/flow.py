"""The laws of normalizing flows: modules with ``to_latent``, its inverse ``to_data``, and ``log_prob``.

``to_latent(x)`` gives (z, log_det): the latent z is standard normal, and ``log_det`` is ``log |det dz/dx|``, so that by
the change of variables log p(x) = log N(z) + log_det. A conditional flow is conditioned on the first example.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError, conditioned, given_batch, is_conditional
from deepcanon.laws.classifier import stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import doubled, first, seeded

ROWS = 8
DRAWS = 4000
SIGMAS = 6.0
STEP = 1e-4
"""How far the parameters are moved along the gradient, on both sides."""
ESTIMATES = 1000
"""How often an estimated likelihood is drawn."""


@law
def to_data_inverts_to_latent(module: Any, batch: Batch) -> Measured:
    """Data come back from their latents, and latents from their data."""
    module, batch = _stirred(module, batch)
    with torch.no_grad():
        z, _ = module.to_latent(batch.x)
        noise = torch.randn(z.shape, dtype=z.dtype, generator=seeded(0))
        there, _ = module.to_latent(module.to_data(noise).reshape(batch.x.shape))
        gaps = {"data": _gap(module.to_data(z).flatten(1), batch.x.flatten(1)), "noise": _gap(there, noise)}
    worst = max(gaps, key=lambda name: gaps[name])
    bad = math.inf if any(math.isnan(gap) for gap in gaps.values()) else gaps[worst]
    return bad, 1e-5, f"{len(batch.x)} examples; {worst} come back with an error of {gaps[worst]:.3g}"


@law
def log_det_is_that_of_the_jacobian(module: Any, batch: Batch) -> Measured:
    """``log_det`` is ``log |det dz/dx|`` of the Jacobian that autograd finds, for each example."""
    module, batch = _stirred(module, first(batch, ROWS))
    with torch.no_grad():
        _, claimed = module.to_latent(batch.x)
    wanted = torch.linalg.slogdet(_jacobians(module, batch.x)).logabsdet
    gap = float((claimed - wanted).abs().max())
    gap = math.inf if math.isnan(gap) else gap
    return gap, 1e-6 * (1 + float(wanted.abs().max())), f"{len(wanted)} log-determinants; the worst is off by {gap:.3g}"


@law
def log_prob_is_the_change_of_variables(module: Any, batch: Batch) -> Measured:
    """log p(x) = log N(z; 0, I) + ``log |det dz/dx|``, with a plus: exactly, or as the mean of an unbiased estimate."""
    kind = getattr(module, "likelihood_kind", "exact")
    if kind not in ("exact", "estimate"):
        return 1, 0, f"the likelihood of a flow is exact, or estimated without bias; it says {kind!r}"
    module, batch = _stirred(module, batch if kind == "exact" else first(batch, ROWS))
    with torch.no_grad():
        z, log_det = module.to_latent(batch.x)
        wanted = _normal(z, log_det)
        if kind == "estimate":
            many = batch.x.repeat(ESTIMATES, *[1] * (batch.x.ndim - 1))
            return _unbiased(module.log_prob(many, generator=seeded(0)).reshape(ESTIMATES, -1), wanted)
        gap = float((module.log_prob(batch.x) - wanted).abs().max())
    return gap, 1e-6 * (1 + float(wanted.abs().max())), f"{len(wanted)} log-densities; the worst is off by {gap:.3g}"


@law
def no_latent_value_stays_linear(module: Any, batch: Batch) -> Measured | None:
    """Where some latent values are nonlinear, all are: couplings that never swap halves leave half of them linear."""
    module, batch = _stirred(module, first(batch, ROWS))
    if len(batch) < 2 or batch.x.shape[1:].numel() < 2:
        return None
    rows = _jacobians(module, batch.x)
    curved = (rows - rows[:1]).abs().amax((0, 2)) > 1e-9 * (1 + rows.abs().amax())
    if not bool(curved.any()):
        return None  # a linear flow, which is one on purpose
    linear = int((~curved).sum())
    return linear, 0, f"{linear} of {len(curved)} latent values are linear in the data"


@law
def samples_come_from_noise(module: Any, batch: Batch) -> Measured | None:
    """The latents of the module's own samples have mean 0 and covariance I."""
    if not hasattr(module, "sample"):
        return None
    module, batch = _stirred(module, batch)
    with torch.no_grad():
        x = module.sample(DRAWS, generator=seeded(0))
        z = module.to_latent(x.reshape(DRAWS, *batch.x.shape[1:]))[0].flatten(1)
    products = torch.einsum("bi,bj->bij", z, z).flatten(1)
    wanted = torch.cat([torch.zeros(z.shape[1]), torch.eye(z.shape[1]).flatten()]).double()
    values = torch.cat([z, products], dim=1)
    off = (values.mean(0) - wanted).abs() / ((values.var(0) / DRAWS).sqrt() + 1e-12)
    worst = float(off.max())
    return worst, SIGMAS, f"{DRAWS} samples; the worst moment of their latents is {worst:.2f} standard errors off"


@law
def the_probability_integral_is_uniform(module: Any, batch: Batch) -> Measured | None:
    """Where there is ``to_uniform``, own samples become uniform, and ``log |det du/dx|`` is the log-density itself."""
    if not hasattr(module, "to_uniform") or not hasattr(module, "sample"):
        return None
    module, batch = _stirred(module, batch)
    with torch.no_grad():
        x = module.sample(DRAWS, generator=seeded(0)).reshape(DRAWS, *batch.x.shape[1:])
        u, density = module.to_uniform(x)
        u = u.flatten(1).sort(0).values
        off = float((density - _normal(*module.to_latent(x))).abs().max())
    steps = torch.arange(1, DRAWS + 1, dtype=u.dtype).unsqueeze(1) / DRAWS
    gap = float(torch.maximum((steps - u).abs(), (u - steps + 1 / DRAWS).abs()).amax()) * math.sqrt(DRAWS)
    bad = math.inf if not off < 1e-6 * (1 + float(density.abs().max())) else gap
    # the distance of Kolmogorov and Smirnov times the root of the number of draws exceeds 3 with probability 3e-8
    return bad, 3.0, f"{DRAWS} samples; the worst distance is {gap:.2f} / sqrt(n); log-densities are off by {off:.2g}"


@law
def parameters_get_the_slope_of_the_likelihood(module: Any, batch: Batch) -> Measured | None:
    """Along its gradient the likelihood rises as fast as the gradient says: a numeric inverse must not cut it off."""
    if getattr(module, "likelihood_kind", "exact") != "exact":
        return None
    module, batch = _stirred(module, first(batch, ROWS))
    parameters = [each for each in module.parameters() if each.requires_grad]
    if not parameters:
        return None
    found = torch.autograd.grad(module.log_prob(batch.x).sum(), parameters, allow_unused=True)
    gradient = [torch.zeros_like(a) if b is None else b for a, b in zip(parameters, found, strict=True)]
    claimed = float(torch.stack([each.square().sum() for each in gradient]).sum().sqrt())
    ends = []
    with torch.no_grad():
        for share in (STEP, -2 * STEP):
            for parameter, each in zip(parameters, gradient, strict=True):
                parameter.add_(share * each / max(claimed, 1e-30))
            ends.append(float(module.log_prob(batch.x).sum()))
    wanted = (ends[0] - ends[1]) / (2 * STEP)
    gap = abs(claimed - wanted)
    return gap, 0.02 * (1e-3 + abs(wanted)), f"the slope is {wanted:.4g} by differences, {claimed:.4g} by the gradient"


@law
def every_example_has_its_own_context(module: Any, batch: Batch) -> Measured | None:
    """Of a conditional flow the log-density of an example is the one given its own row of the context alone."""
    if not is_conditional(module) or getattr(module, "likelihood_kind", "exact") != "exact":
        return None
    module, batch = doubled(stirred(module), first(batch, ROWS))
    with torch.no_grad():
        together = given_batch(module, batch).log_prob(batch.x)
        rows = [batch.select(torch.tensor([i])) for i in range(len(batch))]
        alone = torch.cat([given_batch(module, row).log_prob(row.x) for row in rows])
    gap = float((together - alone).abs().max())
    return gap, 1e-9 * (1 + float(alone.abs().max())), f"{len(rows)} contexts; alone, an example is off by {gap:.2g}"


LAWS = (
    to_data_inverts_to_latent,
    log_det_is_that_of_the_jacobian,
    log_prob_is_the_change_of_variables,
    no_latent_value_stays_linear,
    samples_come_from_noise,
    the_probability_integral_is_uniform,
    parameters_get_the_slope_of_the_likelihood,
    every_example_has_its_own_context,
)


def check_flow(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of flows in any module with ``to_latent``, ``to_data`` and ``log_prob``."""
    missing = [method for method in ("to_latent", "to_data", "log_prob") if not callable(getattr(module, method, None))]
    if missing:
        raise UsageError(f"a flow has to_latent, to_data and log_prob; {', '.join(missing)} is missing")
    return outcomes(LAWS, module, batch)


def _stirred(module: Any, batch: Batch) -> tuple[Any, Batch]:
    """Module, far from where it starts, and batch in double precision; given what the first example is, if at all."""
    module, batch = doubled(stirred(module), batch)
    return conditioned(module, first(batch, 1)), batch


def _jacobians(module: Any, x: Tensor) -> Tensor:
    """dz/dx of each example, (B, D, D)."""

    def latent(row: Tensor) -> Tensor:
        z: Tensor = module.to_latent(row.unsqueeze(0))[0]
        return z.flatten()

    size = x.shape[1:].numel()
    found = [torch.autograd.functional.jacobian(latent, row).reshape(size, size) for row in x]
    return torch.stack(found)


def _normal(z: Tensor, log_det: Tensor) -> Tensor:
    """log N(z; 0, I) + log_det, (B,)."""
    return -0.5 * (z.square() + math.log(2 * math.pi)).flatten(1).sum(-1) + log_det


def _unbiased(drawn: Tensor, wanted: Tensor) -> Measured:
    """How many standard errors the worst mean of the estimates, (draws, B), is away from what is wanted, (B,)."""
    spread = drawn.std(0)
    if float(spread.max()) < 1e-9:
        return 1, 0, "the likelihood says that it is an estimate, and nothing in it is drawn: it is exact"
    worst = float(((drawn.mean(0) - wanted).abs() / (spread / math.sqrt(len(drawn)) + 1e-6)).max())
    return worst, SIGMAS, f"{len(drawn)} estimates each; the worst mean is {worst:.2f} standard errors off"


def _gap(came: Tensor, wanted: Tensor) -> float:
    return float((came - wanted).abs().max() / (1 + wanted.abs().max()))
