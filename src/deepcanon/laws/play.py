"""A short training by a model's own turns, with plain gradient descent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from deepcanon.core import Absorb, Descend, Model, Terms, Turn, UsageError
from deepcanon.laws.probe import total

RATE = 1e-2


def train_briefly(model: Model[Any], batch: Any) -> None:
    """Move a model away from its initialization: weights that start at zero would hide many a fault."""
    for turn in schedule(model, batch):
        play(model, turn, batch)


def schedule(model: Model[Any], batch: Any) -> Iterator[Turn[Any]]:
    """The turns of a short training in their order, each at least once."""
    model.train()
    model.prepare([batch])
    turns = model.turns()
    # Twice as long as the shortest share needs, so that rounding its ends leaves out no turn.
    shortest = (turn.every / (turn.share[1] - turn.share[0]) for turn in turns if turn.share[1] > turn.share[0])
    steps = max(4 * max(turn.every for turn in turns), *(2 * math.ceil(need) for need in shortest))
    for step in range(1, steps + 1):
        set_progress(model, step / steps)
        for turn in turns:
            if turn.start is not None and turn.begins(step, steps):
                turn.start()
            if turn.due(step, steps):
                yield turn


def set_progress(model: Model[Any], share: float) -> None:
    """Set the share of the training that is done, as a trainer does: of the model and of the models inside it."""
    for module in model.modules():
        if isinstance(module, Model):
            module.progress = share


def play(model: nn.Module, turn: Turn[Any], batch: Any) -> Terms:
    """One turn as a trainer plays it, with plain gradient descent."""
    if isinstance(turn, Absorb):
        with torch.no_grad():
            return turn.rule(batch) or {}
    if not isinstance(turn, Descend):
        raise UsageError(f"the turn {turn.name!r} is neither a Descend nor an Absorb")
    own = tuple(turn.parameters)
    outside = _outside(model, own)
    for parameter in (*own, *outside):
        parameter.grad = None
    for parameter in outside:
        parameter.requires_grad_(False)
    try:
        if turn.gradient is None:
            terms = turn.loss(batch)
            total(terms).backward()
        else:
            terms = turn.gradient(batch)()
    finally:
        for parameter in outside:
            parameter.requires_grad_(True)
    with torch.no_grad():
        for parameter in own:
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=RATE)
        if turn.after is not None:
            turn.after()
    return terms


def _outside(model: nn.Module, own: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    inside = {id(parameter) for parameter in own}
    return [parameter for parameter in model.parameters() if parameter.requires_grad and id(parameter) not in inside]
