"""Train, validation and test splits that never change: fixed by a seed, and stratified where there are classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError
from deepcanon.core.plural import counted

HELD_OUT = (0.1, 0.2)
"""The fractions of the validation and the test split of data that come without a split."""

FEWEST = 5
"""Fewer examples cannot be split into three parts."""


def fixed_random(seed: int) -> np.random.RandomState:
    """A random generator whose numbers are the same in every version of NumPy, as only those of RandomState are."""
    return np.random.RandomState(seed)


def stratified_order(classes: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A shuffled order in which every class is spread evenly, so that any part of it is stratified.

    >>> order = stratified_order(np.array([0, 0, 0, 0, 1, 1, 1, 1]), seed=0)
    >>> sorted(int(row) // 4 for row in order[:4])
    [0, 0, 1, 1]
    """
    shuffled = fixed_random(seed).permutation(len(classes))
    position = np.empty(len(classes))
    for label in np.unique(classes):
        rows = shuffled[classes[shuffled] == label]
        position[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return shuffled[np.argsort(position[shuffled], kind="stable")]


def cut(order: NDArray[np.int64], counts: Sequence[int]) -> list[Tensor]:
    """Consecutive parts of an order with these many rows each; a part lists its rows in rising order."""
    ends = np.cumsum(counts)
    return [torch.from_numpy(np.sort(order[end - count : end])) for end, count in zip(ends, counts, strict=True)]


def grouped_order(groups: NDArray[np.int64], counts: Sequence[int], what: str, by: str) -> list[NDArray[np.int64]]:
    """Parts with about these many rows each, in which no group is in two: groups are shuffled and taken whole.

    >>> [rows.tolist() for rows in grouped_order(np.array([0, 0, 1, 1, 2, 2]), (2, 2, 2), "the table", "patient")]
    [[4, 5], [2, 3], [0, 1]]
    """
    _, groups, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < len(counts):
        raise DataError(f"{what} has {len(sizes)} groups by {by!r}; at least {len(counts)} are needed to split it")
    order = fixed_random(0).permutation(len(sizes))
    reached = np.cumsum(sizes[order])
    ends = [int(np.abs(reached - end).argmin()) + 1 for end in np.cumsum(counts)[:-1]]
    for place in range(len(ends)):  # each part has a group at least, and leaves one for each after it
        least = ends[place - 1] + 1 if place else 1
        ends[place] = min(max(ends[place], least), len(sizes) - (len(ends) - place))
    part = np.empty(len(sizes), dtype=np.int64)
    part[order] = np.searchsorted(ends, np.arange(len(sizes)), side="right")
    return [np.flatnonzero(part[groups] == place) for place in range(len(counts))]


def ordered_parts(values: NDArray[np.float64], counts: Sequence[int], what: str, by: str) -> list[NDArray[np.int64]]:
    """Parts with about these many rows each, the lowest values first, in which no value is in two.

    >>> [rows.tolist() for rows in ordered_parts(np.array([1.0, 3, 2, 2, 2, 4]), (2, 2, 2), "the table", "day")]
    [[0], [2, 3, 4], [1, 5]]
    """
    order = np.argsort(values, kind="stable")
    changes = np.flatnonzero(np.diff(values[order]) > 0) + 1  # the places where a part may end
    if len(changes) < len(counts) - 1:
        raise DataError(
            f"{what} has {counted(len(changes) + 1, 'different value')} of {by!r}; to split by it, at least "
            f"{len(counts)} are needed"
        )
    ends: list[int] = []
    for place, end in enumerate(np.cumsum(counts)[:-1]):
        first = int(np.searchsorted(changes, ends[-1], side="right")) if ends else 0
        free = changes[first : len(changes) - (len(counts) - 2 - place)]  # which leave one for each part after it
        ends.append(int(free[np.abs(free - end).argmin()]))
    return [np.sort(rows) for rows in np.split(order, ends)]


def three_counts(examples: int, what: str) -> tuple[int, int, int]:
    """The numbers of training, validation and test examples.

    >>> three_counts(100, "the table")
    (70, 10, 20)
    """
    if examples < FEWEST:
        raise DataError(
            f"{what} has {counted(examples, 'example')}; at least {FEWEST} are needed to train, validate and test"
        )
    valid, test = (max(1, round(share * examples)) for share in HELD_OUT)
    return examples - valid - test, valid, test
