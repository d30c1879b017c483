"""Helpers of methods: layers of the wrapped model, what is added to them, its classes, and a new model like it."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Model, UsageError

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def weight_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The linear and convolutional layers by name, in the order in which the model holds them.

    >>> list(weight_layers(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))))
    ['0', '2']
    """
    kinds = (nn.Linear, *CONVOLUTIONS)
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, kinds)}


def later_layers(model: Model[Any], method: str) -> list[nn.Module]:
    """The weight layers that take hidden activations: all but the first."""
    _, *later = weight_layers(model).values() or (None,)
    if not later:
        raise UsageError(f"{method} changes hidden activations, and {model.name()} has no hidden layer")
    return [layer for layer in later if layer is not None]


def chosen_layers(model: Model[Any], there: Sequence[str], patterns: Sequence[str], can: str) -> list[str]:
    """The layers among those ``there`` that the patterns name, in the model's order; ``can`` says what they are."""
    for pattern in patterns:
        if not fnmatch.filter(there, pattern):
            raise UsageError(
                f"layers={pattern!r} matches no layer of {model.name()} {can}; it has {', '.join(there) or 'none'}"
            )
    if not patterns:
        raise UsageError(f"name the layers to adapt; {model.name()} has {', '.join(there) or 'none'}")
    return [name for name in there if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def plus_product(y: Tensor, low: Tensor, up: Tensor, scale: float) -> Tensor:
    """``y + scale * low @ up.T`` of outputs (..., outputs) and few units (..., units) with ``up`` (outputs, units).

    The small matrix is turned over in memory: products with so few columns, of which the gradient has two more, take
    several times as long by rows of its length.

    >>> plus_product(torch.zeros(2), torch.ones(3), torch.ones(2, 3), 0.5)
    tensor([1.5000, 1.5000])
    """
    outputs, units = up.shape
    return torch.addmm(y.reshape(-1, outputs), low.reshape(-1, units), up.T.contiguous(), alpha=scale).view_as(y)


def classes_of(model: Model[Any]) -> int | None:
    """The number of classes that a model predicts; None where its targets are real numbers."""
    inner = model
    while inner.hparams.get("classes") is None:
        wrapped = [value for value in inner.hparams.values() if isinstance(value, Model)]
        if not wrapped:
            return None
        inner = wrapped[0]
    count: int = inner.hparams["classes"]
    return count


def built_like(model: Model[Any]) -> Model[Any]:
    """A newly initialized model with the arguments of this one, models among them built anew as well.

    Every tensor of it has the precision and the device of its counterpart.
    """
    given = {name: built_like(value) if isinstance(value, Model) else value for name, value in model.hparams.items()}
    built = type(model)(**given)
    theirs = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, tensor in (*built.named_parameters(), *built.named_buffers()):
        tensor.data = tensor.data.to(theirs[name])
    return built
