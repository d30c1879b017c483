"""Ratings from CSV files, ``FILE.csv:ratings``, in long or in wide form.

In long form every row is one rating, in the columns user, item and rating; in wide form it is a user, with a column for
each item, empty where none is given, and perhaps one of the names of users. Of each user some ratings are held out, to
be predicted from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, HeldOut, Incomplete
from deepcanon.core.hints import listed
from deepcanon.core.memory import need
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.split import HELD_OUT, fixed_random
from deepcanon.data.tables.csv_file import CsvFile, is_csv, read
from deepcanon.data.tables.csv_rows import column_names

MARK = "ratings"
"""The form of a file that holds ratings."""

RATING = "rating"
"""The name of the column, in upper or lower case, by which a file is in long form."""

TIMES = ("timestamp", "time", "date")
"""A further column of the long form, which is not read."""

USERS = ("user", "users", "user_id", "userid", "user_name", "username", "id")
"""Columns of the wide form, in upper or lower case, that name the users rather than hold ratings."""

BYTES = 24
"""The bytes that an entry of all users by all items takes while ratings are held out."""


@dataclass(frozen=True)
class LongForm:
    """Ratings one by one: the names of users and items, and for each row its user, its item and its rating, or NaN."""

    file: CsvFile
    users: tuple[str, ...]
    items: tuple[str, ...]
    user: NDArray[np.int64]
    item: NDArray[np.int64]
    rating: NDArray[np.float64]

    @classmethod
    def of(cls, file: CsvFile) -> LongForm | None:
        """The ratings of a file, or None if it is in wide form: if no column is called rating."""
        last = next((name for name in file.columns if name.lower() == RATING), None)
        if last is None:
            return None
        others = [name for name in file.columns if name != last and name.lower() not in TIMES]
        if len(others) != 2:
            raise DataError(
                f"{file.path} has a column {last!r}, so that each row is a rating of an item by a user; besides it "
                f"there are a column of users, one of items and perhaps {TIMES[0]}, but it has {listed(others)}"
            )
        first, second = sorted(others, key=lambda name: "user" not in name.lower())
        (users, user), (items, item) = (_named(file, name) for name in (first, second))
        found = cls(file, users, items, user, item, _checked(file, last))
        found._refuse_duplicates()
        return found

    def _refuse_duplicates(self) -> None:
        pair = self.user * len(self.items) + self.item
        order = np.argsort(pair, kind="stable")
        again = np.flatnonzero(pair[order][1:] == pair[order][:-1])
        if len(again):
            before, after = (int(order[again[0] + step]) for step in (0, 1))
            raise DataError(
                f"{self.file.path}, line {self.file.line(after)}: the user {self.users[self.user[after]]!r} has rated "
                f"{self.items[self.item[after]]!r} in line {self.file.line(before)} already; take one of them out"
            )

    def table(self, items: Sequence[str]) -> Tensor:
        """The ratings of these items, (users, items), NaN where none is given."""
        known = {item: place for place, item in enumerate(items)}
        places = np.array([known.get(item, -1) for item in self.items])[self.item]
        if (strange := places < 0).any():
            row = int(strange.argmax())
            raise DataError(
                f"{self.file.path}, line {self.file.line(row)}: the item {self.items[self.item[row]]!r} does not occur "
                "in the training data; take the row out"
            )
        size = len(self.users) * len(items)
        need(BYTES * size, f"ratings of {len(items):,} items by {len(self.users):,} users", "take fewer users")
        table = torch.full((len(self.users), len(items)), torch.nan)
        table[torch.from_numpy(self.user), torch.from_numpy(places)] = torch.from_numpy(self.rating).float()
        return table


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[Incomplete]:
    """The ratings of a file, some of them held out by a fixed seed; ``preprocessing`` names the items of a run."""
    file = read(path)
    long = LongForm.of(file)
    if long is None and not _items(file):
        raise DataError(f"{path} has no column but {listed(file.columns)}, which names users; add one for each item")
    if long is not None and (missing := np.isnan(long.rating)).any():
        raise DataError(f"{path}, line {file.line(int(missing.argmax()))}: the rating is missing; take the row out")
    items = tuple(preprocessing["columns"]) if preprocessing else long.items if long else _items(file)
    x = long.table(items) if long else _ratings(file, items)
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
        preprocessing={
            "form": MARK,
            "columns": list(items),
            "ratings": most,
            **(preprocessing or {}),
        },
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Incomplete:
    """The ratings of further users, of the items that a model has learned, in long or in wide form."""
    file, items = read(path), tuple(preprocessing["columns"])
    long = LongForm.of(file)
    return Incomplete(long.table(items) if long else _ratings(file, items))


def names(path: Path, preprocessing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The names of the users of a file in wide form, where a column has them."""
    file = read(path)
    if LongForm.of(file) is not None:
        return {}
    return {name: file.texts(name) for name in file.columns if _is_user(name) and name not in preprocessing["columns"]}


def asked_pairs(path: Path, items: Sequence[str]) -> tuple[list[str], Tensor] | None:
    """The users of a file in long form, and whose ratings of which items are asked for, (users, items).

    Those are the rows without a rating or, if every row has one, all that are not there. None of a file in wide form.
    """
    long = LongForm.of(read(path))
    if long is None:
        return None
    there = long.table(items).isnan()
    if (empty := torch.from_numpy(np.isnan(long.rating))).any():
        known = {item: place for place, item in enumerate(items)}
        rows = torch.from_numpy(long.user)[empty]
        places = torch.tensor([known[long.items[item]] for item in long.item[empty.numpy()]])
        there = torch.zeros_like(there)
        there[rows, places] = True
    return list(long.users), there


def held_out(x: Tensor) -> tuple[Incomplete, HeldOut, HeldOut]:
    """Ratings in which a tenth is held out for validation and a fifth for test, both to be predicted from the rest."""
    share = torch.from_numpy(fixed_random(0).uniform(size=tuple(x.shape)))
    valid, test = HELD_OUT
    known = x.masked_fill(share < valid + test, torch.nan)
    first, second = (
        HeldOut(known, x.masked_fill(~part, torch.nan)) for part in (share < valid, (share >= valid) & known.isnan())
    )
    return Incomplete(known), first, second


def _named(file: CsvFile, name: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The different names in a column, in the order in which they occur, and which of them each row has."""
    names, codes = file.coded(name)
    if "" in names:
        raise file.wrong(
            int((codes == names.index("")).argmax()), name, "it is missing; fill it in, or take the row out"
        )
    return names, codes


def _is_user(name: str) -> bool:
    return name.strip().lower().replace(" ", "_") in USERS


def _items(file: CsvFile) -> tuple[str, ...]:
    """The columns of a file in wide form that are items."""
    return tuple(name for name in file.columns if not _is_user(name))


def _ratings(file: CsvFile, items: tuple[str, ...]) -> Tensor:
    """The ratings of these items, (users, items), NaN where none is given."""
    table = torch.empty(len(file), len(items))
    for column, item in enumerate(items):
        table[:, column] = torch.from_numpy(_checked(file, item))
    return table


def _checked(file: CsvFile, name: str) -> NDArray[np.float64]:
    """The ratings in a column, NaN where none is given."""
    values = file.numbers(name)
    right = np.isnan(values) | (np.isfinite(values) & (values >= 1) & (np.floor(values) == values))
    if not right.all():
        row = int(right.argmin())
        problem = f"a rating, a whole number from 1 on, was expected, got {file.text(row, name)!r}"
        raise file.wrong(row, name, problem)
    return values


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    """By its form or, where nothing else is asked, by a header of user, item, rating and perhaps a time."""
    if MARK in forms or reading or forms or not is_csv(path) or not path.is_file():
        return MARK in forms and is_csv(path)
    try:
        names = [name.lower() for name in column_names(path)]
    except DataError:  # which is said when it is read
        return False
    others = [name for name in names if name not in TIMES]
    return len(others) == 3 and RATING in others and any(name.startswith("user") for name in others)


RATINGS = FileKind("ratings", _recognizes, load, apply, forms={MARK: "a CSV file of ratings"}, names=names)
