"""Copies of modules that hold what cannot be copied: a lock, an open file, a tensor in the middle of a graph."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

PARTS = ("_parameters", "_buffers", "_modules")


def copied(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> tuple[Any, torch.optim.Optimizer | None]:
    """A copy of a module and of the optimizer that holds its parameters, which can be copied again.

    Attributes of modules that :func:`copy.deepcopy` refuses are shared with the original; tensors that have a graph,
    as weights that are computed from others, are copied without it.
    """
    try:
        return together(model, optimizer)
    except Exception:
        memo: dict[int, Any] = {}
        kept = {module: names for module in model.modules() if (names := _refused(module))}
        if not kept:
            raise
        for module, names in kept.items():
            for name in names:
                memo[id(vars(module)[name])] = _stand_in(vars(module)[name])
        twin, other = together(model, optimizer, memo)
        places = dict(model.named_modules())
        for name, module in twin.named_modules():
            if places[name] in kept:
                _shares(module, kept[places[name]])
        return twin, other


def together(
    model: nn.Module, optimizer: torch.optim.Optimizer | None, memo: dict[int, Any] | None = None
) -> tuple[Any, torch.optim.Optimizer | None]:
    """A copy of both, in which the optimizer holds the parameters of the copy."""
    memo = {} if memo is None else memo
    return copy.deepcopy(model, memo), None if optimizer is None else of_optimizer(optimizer, memo)


def of_optimizer(optimizer: torch.optim.Optimizer, memo: dict[int, Any]) -> torch.optim.Optimizer:
    """A copy of an optimizer with all attributes: torch copies groups and state, not what a subclass has of its own.

    Functions that others have put on it, as schedules do on its step, belong to the original.
    """
    twin = copy.deepcopy(optimizer, memo)
    for name, value in vars(optimizer).items():
        if name not in vars(twin) and not callable(value):
            setattr(twin, name, copy.deepcopy(value, memo))
    return twin


def _refused(module: nn.Module) -> list[str]:
    """The attributes of a module, other than its parts, that cannot be copied."""
    found = []
    for name, value in vars(module).items():
        if name not in PARTS:
            try:
                copy.deepcopy(value)
            except Exception:
                found.append(name)
    return found


def _stand_in(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _shares(module: nn.Module, names: list[str]) -> None:
    """Have later copies of a module share these attributes, too."""

    def deepcopy(memo: dict[int, Any]) -> nn.Module:
        own = vars(module).pop("__deepcopy__")
        try:
            for name in names:
                memo[id(vars(module)[name])] = _stand_in(vars(module)[name])
            twin = copy.deepcopy(module, memo)
        finally:
            vars(module)["__deepcopy__"] = own
        _shares(twin, names)
        return twin

    vars(module)["__deepcopy__"] = deepcopy
