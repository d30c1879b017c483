"""The units of a table, as its saved preprocessing has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from deepcanon.core.table_units import ColumnUnits, TableUnits, Value
from deepcanon.data.tables.table import Table
from deepcanon.data.tables.table_columns import Column, Number


def table_units(preprocessing: Mapping[str, Any], features: int, labels: Sequence[str] = ()) -> TableUnits:
    """The columns that the features of a table stand for; of other data each feature is a column.

    >>> column = {"kind": "number", "name": "age", "median": 0.0, "mean": 40.0, "std": 10.0, "indicator": True}
    >>> table_units({"columns": [column]}, 2).columns
    (ColumnUnits(name='age', features=2, numeric=True),)
    """
    columns = preprocessing.get("columns")
    if not columns or not isinstance(columns[0], Mapping):
        return TableUnits.plain(features, tuple(labels))
    table = Table.from_json(preprocessing)
    units = tuple(ColumnUnits(each.name, each.features, partial(_decoded, each)) for each in table.columns)
    target = table.target
    if isinstance(target, Number):
        return TableUnits(units, (), target.name, target.mean, target.std)
    return TableUnits(units, tuple(labels), None if target is None else target.name)


def _decoded(column: Column, features: Tensor) -> list[Value]:
    return [*column.decode(features.detach().cpu().double().numpy())]
