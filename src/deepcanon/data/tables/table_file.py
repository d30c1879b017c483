"""The kind of file that is a table: a CSV file, in training, validation and test rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.core import Batch, Labeled, Voted
from deepcanon.core.plural import counted
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.tables.csv_file import is_csv
from deepcanon.data.tables.prepared_table import RAW, prepared
from deepcanon.data.tables.profile import remarks
from deepcanon.data.tables.table import apply
from deepcanon.data.tables.table_columns import Category
from deepcanon.data.tables.voted_table import votes_of, without_votes


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[Batch]:
    """The table in a CSV file, in training, validation and test rows.

    With the ``preprocessing`` that an earlier load has fitted, nothing is fitted anew. In the form ``raw`` the target
    is a number that is left as it is.
    """
    names, reading = without_votes(reading)
    ready = prepared(path, forms, reading, preprocessing)
    said, file, table, target = tuple(remarks(ready)), ready.file, ready.table, ready.table.target
    labels = [table.labels(file.rows(rows)) for rows in ready.splits.values()]
    staged = table.staged(file, forget=True)
    rows_of = [staged.x(rows) for rows in ready.splits.values()]
    train, valid, test = (Batch(x) if y is None else Labeled(x, y) for x, y in zip(rows_of, labels, strict=True))
    sizes = table.sizes()
    if names:
        votes = votes_of(file.rows(ready.splits["train"]), names, target)
        heard = (votes >= 0).any(1)
        train, sizes = Voted.of(train.x[heard], votes[heard]), {**sizes, "sources": len(names)}
        if silent := int((~heard).sum()):
            said = (*said, f"{counted(silent, 'training row')} on which all sources abstain: left out.")
    return Dataset(
        name=f"{path}:{RAW}" if RAW in forms else str(path),
        kind="table",
        train=train,
        valid=valid,
        test=test,
        sizes=sizes,
        shape=(sizes["features"],),
        labels=target.values if isinstance(target, Category) else (),
        source=str(path.resolve()),
        target=None if target is None else target.name,
        preprocessing=table.as_json() | ({"form": RAW} if RAW in forms else {}),
        remarks=said,
    )


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return is_csv(path)


TABLE = FileKind(
    "table",
    _recognizes,
    load,
    apply,
    takes=frozenset({"target", "column", "drop", "votes", "group", "split_by"}),
    forms={RAW: "a CSV file, whose target may be left as it is"},
)
