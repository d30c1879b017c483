"""Tables of numbers from arrays: standardized on the training rows, with the units kept as those of a file are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.tables.table import Table
from deepcanon.data.tables.table_columns import Category, Number

Values = NDArray[Any]


def number_table(
    entry: Entry, names: Sequence[str], x: Values, target: str, y: Values, splits: Sequence[Tensor]
) -> Dataset[Labeled]:
    """The data set of rows ``x``, whose columns have these ``names``, in ``splits``, lists of rows.

    ``y`` are the classes that the entry names, or numbers, which are standardized too. Its preprocessing is that of a
    CSV file with these columns, so that new rows come in one, and errors are in the units of the target.
    """
    train = splits[0].numpy()
    columns = tuple(_number(name, x[train, place]) for place, name in enumerate(names))
    label = Category(target, tuple(entry.labels)) if entry.labels else _number(target, y[train])
    rows = _standardized(x, columns)
    labels = torch.from_numpy(y.astype(np.int64)) if isinstance(label, Category) else _standardized(y[:, None], [label])
    parts = (Labeled(rows[part], labels[part]) for part in splits)
    return replace(entry.dataset(*parts), preprocessing=Table(columns, label).as_json())


def _number(name: str, values: Values) -> Number:
    return Number(name, float(np.median(values)), float(values.mean()), float(values.std()) or 1.0, indicator=False)


def _standardized(values: Values, columns: Sequence[Number]) -> Tensor:
    means, scales = (np.array([getattr(column, part) for column in columns]) for part in ("mean", "std"))
    return torch.from_numpy(((values - means) / scales).astype(np.float32))
