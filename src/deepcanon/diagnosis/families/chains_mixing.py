"""Markov chains of an energy-based model: whether they move, how varied they are, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch

STEPS = 10
"""After how many rounds of the chains their states are compared."""


def has_chains(model: Any) -> bool:
    """Whether it is an energy-based model with a negative phase of its own."""
    return all(callable(getattr(model, name, None)) for name in ("energy", "negatives"))


@torch.no_grad()
def chains_mixing(model: Any, batch: AnyBatch) -> dict[str, float]:
    """How alike the states of chains are a few rounds apart, how varied next to the data, and how far in energy.

    ``moved`` is the mean squared change of a state over a few rounds by that of two different chains (1 if they are
    independent, 0 if none moves); ``advanced`` the same of the states that the model keeps from step to step, over one
    round, of a typical chain; ``spread`` the standard deviation of the chains by that of the data; ``gap`` the
    difference of the energies of chains and data in standard deviations of the latter.
    """
    model.train()  # in eval mode chains are not kept
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    states = [model.negatives(batch.x).flatten(1).double()]
    advanced = _advanced(kept, dict(model.named_buffers()), len(states[0]))
    states += [model.negatives(batch.x).flatten(1).double() for _ in range(STEPS)]
    model.eval()
    first, last = states[0], states[-1]
    other = (last - last.roll(1, 0)).square().sum(1).mean()
    moved = float((last - first).square().sum(1).mean() / other.clamp_min(1e-30)) if first.shape == last.shape else 1.0
    data = batch.x.flatten(1).double()
    shape = (len(last), *batch.x.shape[1:])
    there, here = _energies(model, last.to(batch.x.dtype).reshape(shape)), _energies(model, batch.x)
    return {
        **({} if advanced is None else {"advanced": advanced}),
        "moved": min(moved, 2.0),
        "still": float((last == first).all(1).double().mean()),
        "spread": float((last.var(0).sum() / data.var(0).sum().clamp_min(1e-30)).sqrt()),
        "gap": float((there.mean() - here.mean()).abs() / here.std().clamp_min(1e-6)),
    }


def _advanced(before: Mapping[str, Tensor], after: Mapping[str, Tensor], count: int) -> float | None:
    """How far a typical one of so many chains went, by the distance of two; None where no state is kept."""
    for name, old in before.items():
        new = after[name]
        if old.ndim == 2 and old.is_floating_point() and new.shape == old.shape and not torch.equal(new, old):
            steps = (new - old).double().square().sum(1).sort(descending=True).values[:count]  # others were not run
            apart = (new - new.roll(1, 0)).double().square().sum(1).mean()
            return float(steps.median() / apart.clamp_min(1e-30))
    return None


def _energies(model: Any, x: Tensor) -> Tensor:
    energy: Tensor = model.energy(x)
    return energy.double()
