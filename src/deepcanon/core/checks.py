"""Checks of arguments and data given to a model; each error says what was expected, what was given and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.turn import B


def at_least(least: int, **sizes: int) -> None:
    """Check that every size is ``least`` or more.

    >>> at_least(1, features=64, latent=0)
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: latent must be at least 1 (got 0)
    """
    for name, size in sizes.items():
        if size < least:
            raise UsageError(f"{name} must be at least {least} (got {size})")


def one_of(allowed: Iterable[str], **choices: str) -> None:
    """Check that every choice is among the ``allowed`` ones.

    >>> one_of(("hot", "cold"), water="warm")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: water must be one of hot, cold (got 'warm')
    """
    allowed = tuple(allowed)
    for name, choice in choices.items():
        if choice not in allowed:
            raise UsageError(f"{name} must be one of {', '.join(allowed)} (got {choice!r})")


def flat(x: Tensor, features: int) -> Tensor:
    """The examples as rows of ``features`` numbers, whatever their natural shape."""
    if x.ndim < 2 or prod(x.shape[1:]) != features:
        raise DataError(f"the model takes examples of {features} features in rows, got the shape {tuple(x.shape)}")
    return x if x.ndim == 2 else x.flatten(1)  # (B, features)


def only_classes(y: Tensor, classes: int) -> None:
    """Check that ``y`` holds classes, 0 to ``classes - 1``; on the meta device it has no values and passes.

    >>> import torch
    >>> only_classes(torch.tensor([0, 3]), classes=3)
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.DataError: the model has the classes 0 to 2, got the class 3
    """
    if y.is_floating_point() or y.dtype == torch.bool or y.ndim != 1:
        kind = "real numbers" if y.is_floating_point() else "truth values" if y.dtype == torch.bool else "whole numbers"
        raise DataError(f"the model takes classes as whole numbers, (B,); got {kind} of the shape {tuple(y.shape)}")
    strange = y[:0] if y.is_meta else y[(y < 0) | (y >= classes)]
    if len(strange):
        raise DataError(f"the model has the classes 0 to {classes - 1}, got the class {int(strange[0])}")


def is_binary(x: Tensor) -> bool:
    """Whether ``x`` holds zeros and ones only; a tensor on the meta device has no values and passes.

    >>> import torch
    >>> is_binary(torch.tensor([0.0, 1.0])), is_binary(torch.tensor([0.0, 0.5]))
    (True, False)
    """
    return x.is_meta or bool(((x == 0) | (x == 1)).all())


def only_binary(x: Tensor, model: str) -> None:
    """Check that ``x`` is binary: zeros and ones only."""
    if not is_binary(x):
        raise DataError(
            f"{model} models zeros and ones, but the data have other values (from {x.min():.3g} to {x.max():.3g}); "
            "take images in their form NAME:binary, or threshold the data first"
        )


def check_support(x: Tensor, support: str, model: str) -> None:
    """Check that ``x`` has values of the kind that a model is a distribution of."""
    if support == "binary":
        only_binary(x, model)
    elif support == "real":
        only_real(x, model)
        not_gray(x, model)
    elif support == "spins" and not (x.is_meta or bool((x.abs() == 1).all())):
        raise DataError(f"{model} models spins, -1 and 1; the data go from {x.min():.3g} to {x.max():.3g}")
    elif support in ("categorical", "gray levels") and not (x.is_meta or bool(((x >= 0) & (x == x.round())).all())):
        raise DataError(
            f"{model} models {'gray levels' if support == 'gray levels' else 'categories'}, which are whole numbers "
            f"from 0 on; the data have other values (from {x.min():.3g} to {x.max():.3g})"
        )


def is_gray(x: Tensor) -> bool:
    """Whether ``x`` looks like plain gray levels: multiples of 1/255, 1/16 ... between 0 and 1.

    >>> import torch
    >>> pixels = torch.arange(64).reshape(1, 64) % 17 / 16
    >>> is_gray(pixels), is_gray(pixels + 0.001)
    (True, False)
    """
    if x.is_meta or len(x) == 0 or x[0].numel() < 16:
        return False
    steps = x.new_tensor(GRAY_STEPS).unsqueeze(1)

    def on_a_grid(values: Tensor) -> bool:
        scaled = values.reshape(1, -1) * steps
        near = (scaled - scaled.round()).abs() < 1e-4
        inside = bool((values >= 0).all()) and bool((values <= 1).all())
        return inside and bool(near.all(1).any())

    return on_a_grid(x[0].flatten()[:256]) and on_a_grid(x)  # the first is cheaper than to check all of every batch


GRAY_STEPS = (255.0, 16.0, 15.0, 63.0, 31.0, 7.0, 3.0)
"""The largest level of the usual gray images, of 8 bits or fewer; 16 is that of the digits of scikit-learn."""


def not_gray(x: Tensor, model: str) -> None:
    """Check that ``x`` does not hold plain gray levels, on which a density is unbounded."""
    if not is_functorch_wrapped_tensor(x) and is_gray(x) and not is_binary(x):
        raise DataError(
            f"{model} is a density of real numbers, but the data are plain gray levels, on which it can grow without "
            "bound; take images in their form NAME:dequantized, or a model of gray levels"
        )


def only_real(x: Tensor, model: str) -> None:
    """Check that ``x`` is not binary: on zeros and ones a density is unbounded. A constant ``x`` may be a point."""
    if x.is_meta or len(x) == 0 or is_functorch_wrapped_tensor(x):  # torch.func.vmap shows no values
        return
    if not is_binary(x[0]):  # cheaper than to check all of every batch
        return
    if is_binary(x) and bool(x.min() < x.max()):
        raise DataError(
            f"{model} is a density of real numbers, but the data are zeros and ones, on which it can grow without "
            "bound; take images in their form NAME:dequantized, or a model of zeros and ones"
        )


def of_reals(data: Iterable[B], model: str) -> Iterator[B]:
    """The batches one by one, each checked by :func:`only_real`."""
    for batch in data:
        only_real(batch.x, model)
        yield batch
