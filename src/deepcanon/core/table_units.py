"""Units of a table: the columns that the features of a model stand for, and what it predicts of the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from deepcanon.core.display import Shown

STEP = 1e-4
"""The step of a feature, in its standard deviations, by whose difference a slope is measured."""

Value = float | str
"""What a cell of a table holds: a number or a text, which is empty where it is missing."""


@dataclass(frozen=True)
class ColumnUnits(Shown):
    """A column of a table, which is one or several features of a model."""

    name: str
    features: int
    decode: Callable[[Tensor], list[Value]]
    """The values of the column, in the units of the table, that such features, (N, features), stand for."""

    def _facts(self) -> dict[str, Any]:
        return {"name": self.name, "features": self.features, "numeric": self.numeric}

    @cached_property
    def numeric(self) -> bool:
        """Whether the column holds numbers, which its first feature stands for."""
        return not isinstance(self.decode(torch.zeros(1, self.features))[0], str)

    def slopes(self, features: Tensor) -> Tensor:
        """Of numbers: by how much each rises with its first feature, (N,), also where that is not a straight line.

        >>> ColumnUnits("age", 1, lambda part: (40 + 10 * part[:, 0]).tolist()).slopes(torch.zeros(2, 1)).round()
        tensor([10., 10.], dtype=torch.float64)
        """
        ahead, back = features.double().clone(), features.double().clone()
        ahead[:, 0] += STEP
        back[:, 0] -= STEP
        there, here = (torch.tensor(self.decode(each), dtype=torch.float64) for each in (ahead, back))
        return (there - here) / (2 * STEP)


@dataclass(frozen=True)
class TableUnits(Shown):
    """The columns of a table in the order of their features, and what a prediction means in the table.

    >>> TableUnits.plain(3).names
    ('x1', 'x2', 'x3')
    """

    columns: tuple[ColumnUnits, ...]
    classes: tuple[str, ...] = ()
    """The names of the classes, where they are known."""
    target: str | None = None
    """The name of the target, where it is known."""
    offset: float = 0.0
    scale: float = 1.0
    """A target that is predicted as t is ``offset + scale * t`` in the table."""

    @classmethod
    def plain(cls, features: int, classes: tuple[str, ...] = ()) -> Self:
        """Those of data that are no more than features: each is a column of numbers, x1, x2 ..."""
        return cls(tuple(ColumnUnits(f"x{i + 1}", 1, _as_they_are) for i in range(features)), classes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> int:
        """The number of features of all columns."""
        return sum(column.features for column in self.columns)

    @property
    def places(self) -> list[slice]:
        """The features of each column."""
        ends = [sum(column.features for column in self.columns[: i + 1]) for i in range(len(self.columns))]
        return [slice(end - column.features, end) for column, end in zip(self.columns, ends, strict=True)]


def _as_they_are(features: Tensor) -> list[Value]:
    values: list[Value] = features[:, 0].tolist()
    return values
