"""Optimizers by name: torch's own, fused where torch has it, and AMSGrad and momentum as in their papers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache

import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.core.options import check_options, choose, parse
from deepcanon.optim.amsgrad import AMSGrad
from deepcanon.optim.momentum import Momentum


@cache
def optimizer_classes() -> dict[str, type[torch.optim.Optimizer]]:
    """All optimizers for dense gradients, torch's and ours, by lower-case name.

    >>> sorted(optimizer_classes())[:4]
    ['adadelta', 'adafactor', 'adagrad', 'adam']
    """
    found = (getattr(torch.optim, name) for name in dir(torch.optim))
    classes = [cls for cls in found if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer)]
    excluded = (torch.optim.Optimizer, torch.optim.SparseAdam)  # abstract; and for sparse gradients only
    return {cls.__name__.lower(): cls for cls in (*classes, AMSGrad, Momentum) if cls not in excluded}


def optimizer(text: str, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """The optimizer of this name with its options.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> optimizer("adam:betas=0.5/0.999", [weight], lr=0.01).defaults["betas"]
    (0.5, 0.999)
    """
    name, options = parse(text)
    choose("optimizer", name, optimizer_classes())
    cls: Callable[..., torch.optim.Optimizer] = optimizer_classes()[name]
    check_options(f"the optimizer {name}", cls, options, own=("params", "lr"))
    parameters = list(parameters)
    if "fused" in inspect.signature(cls).parameters and "foreach" not in options:
        options.setdefault("fused", all(parameter.is_floating_point() for parameter in parameters))
    try:
        return cls(parameters, lr=lr, **options)
    except (ValueError, TypeError) as error:
        raise UsageError(f"the optimizer {text!r} was refused: {error}") from error


def default_lr(text: str) -> float:
    """The default learning rate of this optimizer in torch."""
    name, _ = parse(text)
    choose("optimizer", name, optimizer_classes())
    return float(inspect.signature(optimizer_classes()[name]).parameters["lr"].default)
