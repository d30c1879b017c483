"""Checks of arguments and data given to a model; each error says what was expected, what was given and what to do."""

from __future__ import annotations

import math
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


def positive(**numbers: float) -> None:
    """Check that every number is above 0.

    >>> positive(sigma=0.0)
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: sigma must be positive (got 0.0)
    """
    for name, number in numbers.items():
        if not number > 0:
            raise UsageError(f"{name} must be positive (got {number})")


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


def check_support(x: Tensor, support: str, model: str, discrete: Iterable[int] = ()) -> None:
    """Check that ``x`` has values of the kind that a model is a distribution of.

    Of ``mixed`` ones, the features at the positions ``discrete`` are categories and the others real.
    """
    if support == "binary":
        only_binary(x, model)
    elif support == "real":
        only_real(x, model)
        not_gray(x, model)
    elif support == "mixed":
        rows, places = x.flatten(1), list(discrete)
        check_support(rows[:, places], "categorical", model)
        check_support(rows[:, [i for i in range(rows.shape[1]) if i not in places]], "real", model)
    elif support == "spins" and not (x.is_meta or bool((x.abs() == 1).all())):
        raise DataError(
            f"{model} models spins, -1 and 1, but the data have other values (from {x.min():.3g} to {x.max():.3g}); "
            "take images in their form NAME:spins, or threshold the data first"
        )
    elif support in ("categorical", "gray levels") and not (x.is_meta or bool(((x >= 0) & (x == x.round())).all())):
        raise DataError(
            f"{model} models {'gray levels' if support == 'gray levels' else 'categories'}, which are whole numbers "
            f"from 0 on; the data have other values (from {x.min():.3g} to {x.max():.3g})"
        )


LEVELS = 256
"""The most levels of plain gray images, those of 8 bits."""
FEW_FEATURES = 16
"""An example of fewer features is a row of a table, which may be rounded, and not an image."""


def is_gray(x: Tensor) -> bool:
    """Whether ``x`` looks like plain gray levels, in any units: 0 to 255, k/255, 2k/255 - 1, k/16 ...

    It is decided by the whole batch. All values lie on one grid of equal steps with at most 256 levels, an example has
    at least 16 features, and some values occur more than once, unless the grid is one of the usual ones. A table whose
    columns are rounded is none: it has fewer columns, or columns with grids of their own.

    >>> import torch
    >>> pixels = torch.arange(64).reshape(1, 64) % 17 / 16
    >>> is_gray(pixels), is_gray(2 * pixels - 1), is_gray(pixels + torch.linspace(0, 0.01, 64))
    (True, True, False)
    """
    if x.is_meta or len(x) == 0 or x[0].numel() < FEW_FEATURES:
        return False
    x = x.detach().flatten()
    if len(x[: 2 * LEVELS].unique()) > LEVELS:  # cheaper than to sort all of every batch
        return False
    values = x.unique().double()
    if not 1 < len(values) <= LEVELS:
        return False
    return _on_a_grid(values) if len(values) < len(x) else _on_a_usual_grid(values)


USUAL = ((1.0, 255), (255.0, 255), (16.0, 16), (15.0, 15), (63.0, 63), (31.0, 31), (7.0, 7), (3.0, 3))
"""The factors by which the usual gray images are whole numbers, and the largest of these; 16 is that of the digits."""


def _on_a_usual_grid(values: Tensor) -> bool:
    """Whether sorted values are gray levels as whole numbers, or divided by the largest level."""
    for factor, largest in USUAL:
        scaled = values * factor
        if (
            float(scaled[0]) >= 0
            and float(scaled[-1]) <= largest
            and bool(((scaled - scaled.round()).abs() < 1e-4).all())
        ):
            return True
    return False


def _on_a_grid(values: Tensor) -> bool:
    """Whether sorted values are multiples of one step from the first, at most 255 of them, up to rounding."""
    offsets = values - values[0]
    span = float(offsets[-1])
    step = span
    for gap in offsets.diff().tolist():  # Euclid's algorithm, for numbers that are rounded
        while gap > span / (8 * LEVELS):
            step, gap = gap, abs(math.remainder(step, gap))
    levels = round(span / step)
    places = offsets * (levels / span)
    return levels < LEVELS and float((places - places.round()).abs().max()) < 1e-3


def not_gray(x: Tensor, model: str) -> None:
    """Check that ``x`` does not hold plain gray levels, on which a density is unbounded."""
    if not is_functorch_wrapped_tensor(x) and is_gray(x) and not is_binary(x):
        raise DataError(
            f"{model} is a density of real numbers, but the data are plain gray levels, on which it can grow without "
            "bound; take images in their form NAME:dequantized, or a model of gray levels"
        )


def only_real(x: Tensor, model: str) -> None:
    """Check that ``x`` holds real numbers, not bits or whole numbers: on these a density is unbounded.

    A constant ``x`` may be a point.
    """
    if not x.is_floating_point():
        raise DataError(
            f"{model} is a density of real numbers, but the data are of the type {x.dtype}; "
            "take images in their form NAME:dequantized, or turn numbers that mean real values into floats"
        )
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
