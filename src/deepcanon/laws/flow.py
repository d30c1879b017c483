"""The laws of normalizing flows: modules with ``to_latent``, its inverse ``to_data``, and ``log_prob``.

``to_latent(x)`` gives (z, log_det): the latent z is standard normal, and ``log_det`` is log |det dz/dx|, so that by the
change of variables log p(x) = log N(z) + log_det. A conditional flow is conditioned on what the first example gives.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError, conditioned
from deepcanon.laws.classifier import stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import doubled, first, seeded

ROWS = 8
DRAWS = 4000
SIGMAS = 6.0
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
    """``log_det`` is log |det dz/dx| of the Jacobian that autograd finds, for each example."""
    module, batch = _stirred(module, first(batch, ROWS))
    with torch.no_grad():
        _, claimed = module.to_latent(batch.x)
    wanted = torch.linalg.slogdet(_jacobians(module, batch.x)).logabsdet
    gap = float((claimed - wanted).abs().max())
    gap = math.inf if math.isnan(gap) else gap
    return gap, 1e-6 * (1 + float(wanted.abs().max())), f"{len(wanted)} log-determinants; the worst is off by {gap:.3g}"


@law
def log_prob_is_the_change_of_variables(module: Any, batch: Batch) -> Measured:
    """log p(x) = log N(z; 0, I) + log |det dz/dx|, with a plus: exactly, or as the mean of an unbiased estimate."""
    kind = getattr(module, "likelihood_kind", "exact")
    if kind not in ("exact", "estimate"):
        return 1, 0, f"the likelihood of a flow is exact, or estimated without bias; it says {kind!r}"
    module, batch = _stirred(module, batch if kind == "exact" else first(batch, ROWS))
    with torch.no_grad():
        z, log_det = module.to_latent(batch.x)
        wanted = -0.5 * (z.square() + math.log(2 * math.pi)).flatten(1).sum(-1) + log_det
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


LAWS = (
    to_data_inverts_to_latent,
    log_det_is_that_of_the_jacobian,
    log_prob_is_the_change_of_variables,
    no_latent_value_stays_linear,
    samples_come_from_noise,
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


def _unbiased(drawn: Tensor, wanted: Tensor) -> Measured:
    """How many standard errors the worst mean of the estimates, (draws, B), is away from what is wanted, (B,)."""
    spread = drawn.std(0)
    if float(spread.max()) < 1e-9:
        return 1, 0, "the likelihood says that it is an estimate, and nothing in it is drawn: it is exact"
    worst = float(((drawn.mean(0) - wanted).abs() / (spread / math.sqrt(len(drawn)) + 1e-6)).max())
    return worst, SIGMAS, f"{len(drawn)} estimates each; the worst mean is {worst:.2f} standard errors off"


def _gap(came: Tensor, wanted: Tensor) -> float:
    return float((came - wanted).abs().max() / (1 + wanted.abs().max()))
