"""Checks of what a graph is made of and asked for; each error says what was expected and what was given."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from deepcanon.core.errors import DataError, DeepcanonError, UsageError


def whole(value: Any, what: str, least: int = 0, error: type[DeepcanonError] = UsageError) -> int:
    """A whole number of at least ``least``, of Python, NumPy or torch.

    >>> whole("2", "the number of clusters", 1)
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: the number of clusters must be a whole number, 1 or more (got '2')
    """
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise error(f"{what} must be a whole number, {least} or more (got {shown(value)})")
    return number


def share(value: Any, what: str) -> float:
    """A number from 0 to below 1; ``what`` says what it is."""
    try:
        number = float("nan" if isinstance(value, str) else value)
    except (TypeError, ValueError, RuntimeError):
        number = -1.0
    if not 0 <= number < 1:
        raise UsageError(f"{what}, from 0 to below 1 (got {shown(value)})")
    return number


def tensor(value: Any, what: str) -> Tensor:
    """A tensor, an array or a list of numbers, as a tensor; ``what`` says what it must be.

    >>> tensor([0.0, 1.0], "a signal is a tensor with a row for each node")
    tensor([0., 1.])
    """
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{what}; got {shown(value)}") from error


def signal(x: Any, nodes: int) -> Tensor:
    """A signal: a tensor with a row for each of the nodes."""
    rule = f"a signal on {nodes} nodes has as many rows"
    found = tensor(x, f"{rule}, of a tensor")
    if not found.ndim or len(found) != nodes:
        raise DataError(f"{rule}, got {len(found) if found.ndim else 'a single number'}")
    return found


def edge_values(values: Any, edges: int, what: str) -> Tensor:
    """A tensor of values of edges, whose shape is checked by who asks."""
    if not isinstance(values, Tensor):
        raise DataError(f"the {what} of {edges} edges are a tensor with as many rows; got {shown(values)}")
    return values


def positions_of(index: Any, parts: int) -> Tensor:
    """A tensor of the numbers of parts of a union."""
    rule = f"parts are chosen by a tensor of their numbers, 0 to {parts - 1}"
    if not isinstance(index, Tensor) or index.ndim != 1 or index.dtype not in (torch.int32, torch.int64):
        raise UsageError(f"{rule}; got {shown(index)}")
    if index.is_meta or not len(index):
        return index
    if int(index.min()) < -parts or int(index.max()) >= parts:
        raise UsageError(f"{rule}; got {int(index.min())} to {int(index.max())}")
    return index


def choice(value: Any, allowed: Collection[str], rule: str) -> str:
    """One of some words; ``rule`` says what they are."""
    if not isinstance(value, str) or value not in allowed:
        raise UsageError(f"{rule}; got {shown(value)}")
    return value


def precision(dtype: Any) -> torch.dtype:
    """The type of the numbers of a matrix, a floating-point one."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise UsageError(f"dtype is a type of real numbers, such as torch.float32 or torch.float64; got {shown(dtype)}")
    return dtype


def shown(value: Any) -> str:
    """A value in a message: a tensor by its shape and type."""
    return f"a tensor {tuple(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else f"{value!r:.60}"
