"""The state of a game: how well the discriminator tells data and samples apart, and how varied the samples are."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Descend, Model, given_batch

CELLS = 20
"""Into how many cells the data are divided, to find those without samples."""
ROUNDS = 10
AXES = 8
"""Along how many principal axes samples are compared with the data."""


def is_game(model: Any) -> bool:
    """Whether two turns descend on losses of their own over parameters of their own at the same time: two players."""
    return isinstance(model, Model) and callable(getattr(model, "sample", None)) and len(_players(model)) > 1


def _players(model: Model[Any]) -> list[Descend[Any]]:
    found: list[Descend[Any]] = []
    for turn in model.turns():
        if isinstance(turn, Descend) and turn.share == (0.0, 1.0):
            own = {id(each) for each in turn.parameters}
            if all(own.isdisjoint(id(each) for each in other.parameters) for other in found):
                found.append(turn)
    return found


def generator_turn(model: Model[Any], batch: AnyBatch) -> Descend[Any]:
    """The turn of the player whose parameters the samples depend on."""
    *_, last = _players(model)
    with torch.random.fork_rng(devices=[]):
        for turn in _players(model):
            before = _drawn(model, batch)
            kept = [each.detach().clone() for each in turn.parameters]
            with torch.no_grad():
                for each in turn.parameters:
                    each.mul_(1.5).add_(0.1)
            moved = not torch.equal(_drawn(model, batch), before)
            with torch.no_grad():
                for each, old in zip(turn.parameters, kept, strict=True):
                    each.copy_(old)
            if moved:
                return turn
    return last


def _drawn(model: Any, batch: AnyBatch) -> Tensor:
    torch.manual_seed(0)
    few = batch.select(torch.arange(2))
    drawn: Tensor = given_batch(model, few).sample(2)
    return drawn


def generator_gradient(model: Model[Any], batch: AnyBatch, turn: Descend[Any]) -> float:
    """The root of the mean square of the gradient of the generator's loss."""
    model.zero_grad()
    with torch.enable_grad():
        loss = torch.stack(list(turn.loss(batch).values())).sum()
        found = torch.autograd.grad(loss, list(turn.parameters), allow_unused=True)
    squares = [each.double().square().sum() for each in found if each is not None]
    count = sum(each.numel() for each in turn.parameters)
    return float((torch.stack(squares).sum() / count).sqrt()) if squares else 0.0


@torch.no_grad()
def variety(model: Any, batch: AnyBatch) -> dict[str, float]:
    """How varied samples are next to the data: their spread, and what of the data they do not reach.

    The cells are those of the nearest of a few centers of the data (k-means); of those that an independent sample of
    the data is likely to reach, the share that the samples miss counts. ``outside`` is the largest share of the data
    that lies on one side of all samples along one of the principal axes of the data.
    """
    data = batch.x.flatten(1).double()
    return variety_of(data, given_batch(model, batch).sample(len(data)).flatten(1).double())


def variety_of(data: Tensor, drawn: Tensor) -> dict[str, float]:
    """The same of samples, (S, D), next to data, (N, D)."""
    drawn = drawn[: len(data)]
    middle = data.mean(0)
    spread = float((drawn - drawn.mean(0)).square().mean() / (data - middle).square().mean().clamp_min(1e-30))
    centers = _centers(data)
    share = torch.bincount(_nearest(data, centers), minlength=len(centers)).double() / len(data)
    reached = torch.bincount(_nearest(drawn, centers), minlength=len(centers)) > 0
    axes = torch.linalg.svd(data - middle, full_matrices=False).Vh[:AXES].T
    ours, theirs = (drawn - middle) @ axes, (data - middle) @ axes
    beyond = [(theirs > ours.amax(0)).double().mean(0), (theirs < ours.amin(0)).double().mean(0)]
    likely = share * len(drawn) >= -math.log(1e-3)  # else an honest sample may miss the cell, too
    covered = float(reached[likely].double().mean()) if bool(likely.any()) else 1.0
    return {"spread": spread**0.5, "missed": 1 - covered, "outside": float(torch.cat(beyond).max())}


def _centers(data: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = data[torch.randperm(len(data), generator=generator)[:CELLS]]
    for _ in range(ROUNDS):
        cell = _nearest(data, centers)
        sums = torch.zeros_like(centers).index_add_(0, cell, data)
        counts = torch.bincount(cell, minlength=len(centers)).unsqueeze(1)
        centers = torch.where(counts > 0, sums / counts.clamp_min(1), centers)
    return centers


def _nearest(rows: Tensor, centers: Tensor) -> Tensor:
    return torch.cdist(rows, centers).argmin(1)


@torch.no_grad()
def told_apart(model: Any, batch: AnyBatch) -> float | None:
    """The probability that the discriminator ranks an example of the data above a sample (AUC), where it gives numbers.

    That is ``discriminate``, or else ``forward``, of one number for each example.
    """
    model = given_batch(model, batch)
    judge = getattr(model, "discriminate", None) or model
    try:
        real, fake = (judge(x).flatten() for x in (batch.x, model.sample(len(batch)).reshape(batch.x.shape)))
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    if len(real) != len(batch):
        return None
    return above(real, fake)


def above(real: Tensor, fake: Tensor) -> float:
    """The probability that a number of the first lies above one of the second (AUC)."""
    wins = (real.unsqueeze(1) > fake).double() + 0.5 * (real.unsqueeze(1) == fake).double()
    return float(wins.mean())
