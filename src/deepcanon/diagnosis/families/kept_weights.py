"""Pretrained weights that are to stay as they are: what is frozen, and what an adaptation says it started from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Model


def declared_base(model: Any) -> dict[str, Tensor]:
    """What must keep its bits in a training: weights that ``updates`` adds to, frozen ones, and what belongs to them.

    Of a model that is meant for a pretrained one (``wraps_trained``), the buffers of parts without any parameter to
    train count as well: running averages drift in training mode.
    """
    frozen = frozen_by_design(model)
    found = {f"{name} (pretrained)": before for name, (before, _) in _updates(model).items()}
    found |= {name: each.detach() for name, each in model.named_parameters() if name in frozen}
    if found and getattr(model, "wraps_trained", False):
        for name, part in model.named_modules():
            own = [f"{name}.{key}" for key, _ in part.named_parameters(recurse=False)]
            if own and frozen.issuperset(own):
                found |= {f"{name}.{key}": value for key, value in part.named_buffers(recurse=False)}
    return {name: value.clone() for name, value in found.items()}


def frozen_by_design(model: Any) -> set[str]:
    """The parameters that a model built anew with the same arguments freezes, whatever has thawed them since.

    A model without any parameter to descend on freezes none: it sets them by a formula.
    """
    fresh = model
    if isinstance(model, Model) and getattr(model, "wraps_trained", False):
        with torch.random.fork_rng(devices=[]):
            fresh = _built_anew(model)
    frozen = {name for name, each in fresh.named_parameters() if not each.requires_grad}
    return frozen if len(frozen) < sum(1 for _ in fresh.parameters()) else set()


def _built_anew(model: Model[Any]) -> Model[Any]:
    given = {name: _built_anew(value) if isinstance(value, Model) else value for name, value in model.hparams.items()}
    return type(model)(**given)


def _updates(model: Any) -> Mapping[str, tuple[Tensor, Tensor]]:
    method = getattr(model, "updates", None)
    found = method() if callable(method) and isinstance(model, Model) else {}
    return found if isinstance(found, Mapping) else {}


def moved(before: Mapping[str, Tensor], model: nn.Module) -> dict[str, float]:
    """Which of them have not kept their bits, and by how much of their size."""
    after = declared_base(model)
    found = {}
    for name, old in before.items():
        new = after.get(name)
        if new is None or new.shape != old.shape or not torch.equal(new, old):
            gap = float("inf") if new is None or new.shape != old.shape else float((new - old).double().norm())
            found[name] = gap / max(float(old.double().norm()), 1e-12)
    return found
