"""The laws of models of videos: modules with ``log_prob(x, lengths=...)``, on a batch of ``Videos``.

``log_prob`` is the log-density of each video given its length, which says what is padding. Where there is a
``forecast(past, steps)``, it is held to that density.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Model, UsageError, Videos
from deepcanon.laws.continuous import SIGMAS, sigmas
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, violations
from deepcanon.laws.play import train_briefly
from deepcanon.laws.probe import TIGHT, distance, doubled, first, same, seeded, total

ROWS, PADDING, AHEAD, PATHS, DRAWS = 8, 2, 2, 3, 4000


@law
def padding_is_never_read(module: Any, batch: Videos) -> Measured:
    """What stands after the end of a video, be it NaN, changes no bit of likelihoods, gradients and forecasts."""
    module, batch = _settled(module, batch)
    outside = torch.arange(batch.x.shape[1]) >= batch.lengths.unsqueeze(1)
    broken = replace(batch, x=batch.x.masked_fill(outside[..., None, None, None], math.nan))
    changed = []
    with torch.no_grad():
        if not torch.equal(_log_prob(module, broken), _log_prob(module, batch)):
            changed.append("log_prob")
        if hasattr(module, "forecast") and not same(_paths(module, broken), _paths(module, batch)):
            changed.append("forecast")
    wanted, found = (_gradients(module, part) for part in (batch, broken))
    changed += [f"the gradient of {name}" for name in wanted if not torch.equal(found[name], wanted[name])]
    return violations(changed, f"{int(outside.sum())} frames of padding were NaN")


@law
def more_padding_changes_nothing(module: Any, batch: Videos) -> Measured:
    """Videos padded to a greater length have the same likelihoods."""
    module, batch = _settled(module, batch)
    padded = replace(batch, x=torch.cat([batch.x, batch.x[:, :1].expand(-1, PADDING, *batch.x.shape[2:])], 1))
    with torch.no_grad():
        gap = distance(_log_prob(module, padded), _log_prob(module, batch))
    return gap, TIGHT, f"{PADDING} more frames of padding move likelihoods by {gap:.2g}"


@law
def videos_do_not_mix(module: Any, batch: Videos) -> Measured:
    """A video has the likelihood that it has alone and without its padding."""
    module, batch = _settled(module, batch)
    worst, where = 0.0, ""
    with torch.no_grad():
        together = _log_prob(module, batch)
        for row, length in enumerate(batch.lengths.tolist()):
            gap = distance(module.log_prob(batch.x[row : row + 1, :length]), together[row : row + 1])
            if not gap <= worst:
                worst, where = gap, f"; the worst is row {row}"
    return worst, TIGHT, f"{len(batch)} videos, each also alone{where}"


@law
def loss_is_nll_per_frame(module: Any, batch: Videos) -> Measured | None:
    """The loss is the negative log-likelihood of all videos by the number of their frames."""
    if not hasattr(module, "loss"):
        return None
    module, batch = _settled(module, batch)
    with torch.no_grad():
        nats, loss = -float(_log_prob(module, batch).sum()), float(total(module.loss(batch)))
    gap = abs(loss - nats / batch.weight)
    return gap, TIGHT * (1 + abs(loss)), f"the loss is {loss:.6g}; {nats:.6g} nats for {batch.weight} frames"


@law
def frames_add_up_to_the_video(module: Any, batch: Videos) -> Measured | None:
    """``step_log_probs`` sum to ``log_prob``; if the module is ``causal``, no frame knows of later ones."""
    if not hasattr(module, "step_log_probs"):
        return None
    module, batch = _settled(module, batch)
    with torch.no_grad():
        steps, later = module.step_log_probs(batch.x, lengths=batch.lengths), 0.0
        gap = distance(steps.sum(1), _log_prob(module, batch))
        for frame in range(1, batch.x.shape[1] if getattr(module, "causal", False) else 1):
            x = torch.cat([batch.x[:, :frame], batch.x[:, frame:] + 1], 1)
            later = max(later, distance(module.step_log_probs(x, lengths=batch.lengths)[:, :frame], steps[:, :frame]))
    return max(gap, later), TIGHT, f"sums are off by {gap:.2g}; later frames move earlier ones by {later:.2g}"


@law
def forecasts_have_their_shape_and_generator(module: Any, batch: Videos) -> Measured | None:
    """Paths are (samples, B, steps, channels, height, width), and depend on the given generator alone."""
    if not hasattr(module, "forecast"):
        return None
    module, batch = _settled(module, batch)
    faults = []
    before = torch.get_rng_state()
    once, again, other = (_paths(module, batch, seed) for seed in (7, 7, 8))
    if not torch.equal(before, torch.get_rng_state()):
        faults.append("the global generator is moved")
    wanted = (PATHS, len(batch), AHEAD, *batch.x.shape[2:])
    if tuple(once.shape) != wanted:
        faults.append(f"the paths are {tuple(once.shape)} where {wanted} is expected")
    if not same(once, again):
        faults.append("the same generator gives other paths")
    if same(once, other) or bool((once == once[:1]).all()):
        faults.append("the paths are all the same")
    return violations(faults, f"{PATHS} paths of {len(batch)} videos")


@law
def forecasts_follow_the_likelihood(module: Any, batch: Videos) -> Measured | None:
    """Given the past, the gradient g of the log-density has E g = 0 and E x g' = -I over forecasts x (Stein)."""
    if not hasattr(module, "forecast"):
        return None
    module, batch = _settled(module, batch)
    longest = int(batch.lengths.argmax())
    past = first(batch.select(torch.tensor([longest])), 1).past
    given = past.x[:, : int(past.lengths)].expand(DRAWS, *[-1] * 4)
    drawn = module.forecast(past, AHEAD, samples=DRAWS, generator=seeded(0))[:, 0].requires_grad_()
    (slope,) = torch.autograd.grad(module.log_prob(torch.cat([given, drawn], 1)).sum(), drawn)
    x, g = drawn.detach().flatten(1), slope.flatten(1)
    centered, g = (x - x.mean(0)) / x.std(0), g * x.std(0)  # so that units do not matter
    products = torch.einsum("bi,bj->bij", centered, g).flatten(1)
    worst = max(sigmas(g, 0.0), sigmas(products, -torch.eye(x.shape[1], dtype=x.dtype).flatten()))
    return worst, SIGMAS, f"{DRAWS} forecasts; the worst mean is {worst:.2f} standard errors off"


LAWS = (
    padding_is_never_read,
    more_padding_changes_nothing,
    videos_do_not_mix,
    loss_is_nll_per_frame,
    frames_add_up_to_the_video,
    forecasts_have_their_shape_and_generator,
    forecasts_follow_the_likelihood,
)


def check_videos(module: nn.Module, batch: Any) -> list[Outcome]:
    """The outcomes of the laws of models of videos."""
    if not isinstance(batch, Videos):
        raise UsageError(f"models of videos are held to their laws on a batch of Videos, got {type(batch).__name__}")
    return outcomes(LAWS, module, batch)


def _settled(module: Any, batch: Videos) -> tuple[Any, Videos]:
    """Module and batch in double precision; a model after a short training, since many weights may start at zero."""
    batch = first(batch, ROWS)
    if isinstance(module, Model):
        train_briefly(module, batch)
    return doubled(module, batch)


def _log_prob(module: Any, batch: Videos) -> Tensor:
    found: Tensor = module.log_prob(batch.x, lengths=batch.lengths)
    return found


def _paths(module: Any, batch: Videos, seed: int = 0) -> Tensor:
    paths: Tensor = module.forecast(batch, AHEAD, samples=PATHS, generator=seeded(seed))
    return paths


def _gradients(module: Any, batch: Videos) -> dict[str, Tensor]:
    """The gradient of the log-likelihood by every parameter that has one."""
    module.zero_grad()
    with torch.enable_grad():
        _log_prob(module, batch).sum().backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
