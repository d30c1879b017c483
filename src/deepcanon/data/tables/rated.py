"""Ratings from CSV files, ``FILE.csv:ratings``: a row for each user, a column for each item, empty where none is given.

Of each user some ratings are held out, to be predicted from the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import DataError, HeldOut, Incomplete
from deepcanon.data.dataset import Dataset
from deepcanon.data.split import HELD_OUT, fixed_random
from deepcanon.data.tables.csv_file import CsvFile, read

MARK = "ratings"
"""The form of a file that holds ratings."""


def load(path: Path, preprocessing: Mapping[str, Any] | None) -> Dataset[Incomplete]:
    """The ratings of a file, some of them held out by a fixed seed; ``preprocessing`` names the items of a run."""
    file = read(path)
    items = tuple(preprocessing["columns"]) if preprocessing else tuple(file.columns)
    x = _ratings(file, items)
    most = int(x.nan_to_num(0).max())
    if most < 2:
        raise DataError(f"{path} has no rating above 1; ratings are whole numbers from 1 on, empty where none is given")
    train, valid, test = held_out(x)
    return Dataset(
        name=f"{path}:{MARK}",
        kind="ratings",
        train=train,
        valid=valid,
        test=test,
        sizes={"features": len(items), "ratings": int(preprocessing["ratings"]) if preprocessing else most},
        shape=(len(items),),
        source=str(path.resolve()),
        preprocessing={"form": MARK, "columns": list(items), "ratings": most, **(preprocessing or {})},
    )


def apply(path: Path, preprocessing: Mapping[str, Any]) -> Incomplete:
    """The ratings of further users, of the items that a model has learned."""
    return Incomplete(_ratings(read(path), tuple(preprocessing["columns"])))


def held_out(x: Tensor) -> tuple[Incomplete, HeldOut, HeldOut]:
    """Ratings in which a tenth is held out for validation and a fifth for test, both to be predicted from the rest."""
    share = torch.from_numpy(fixed_random(0).uniform(size=tuple(x.shape)))
    valid, test = HELD_OUT
    known = x.masked_fill(share < valid + test, torch.nan)
    first, second = (
        HeldOut(known, x.masked_fill(~part, torch.nan)) for part in (share < valid, (share >= valid) & known.isnan())
    )
    return Incomplete(known), first, second


def _ratings(file: CsvFile, items: tuple[str, ...]) -> Tensor:
    """The ratings of these items, (users, items), NaN where none is given."""
    table = torch.empty(len(file), len(items))
    for column, item in enumerate(items):
        values = file.numbers(item)
        right = np.isnan(values) | (np.isfinite(values) & (values >= 1) & (np.floor(values) == values))
        if not right.all():
            row = int(right.argmin())
            problem = f"a rating, a whole number from 1 on, was expected, got {file.text(row, item)!r}"
            raise file.wrong(row, item, problem)
        table[:, column] = torch.from_numpy(values)
    return table
