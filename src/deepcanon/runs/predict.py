"""Predictions in the units of the user's table, and tables as CSV files."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch
from torch import Generator, Tensor

from deepcanon.core import AnyBatch, Batch, Incomplete, Model, TwoDomains, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.files import with_folder, writing
from deepcanon.core.memory import need
from deepcanon.core.plural import counted
from deepcanon.core.roles import Domain, Forecasts, Maps, Translates
from deepcanon.data import Batches, asked_ratings, image_names, in_original_units, kind_of_path, of, original_rows
from deepcanon.data.frames import as_file
from deepcanon.data.tables.csv_file import read_pieces
from deepcanon.data.tables.table import Table, Unknown, say_unknown, words_of
from deepcanon.runs.data import names_of_rows, new_rows, new_table, own_name
from deepcanon.runs.writing import written

if TYPE_CHECKING:
    from deepcanon.runs.run import Run

Columns = dict[str, list[Any]]
"""A table as its columns by name."""

ROWS_AT_ONCE = 1024
LEVELS, DRAWS = (0.05, 0.5, 0.95), 1000
"""The quantiles of a quantity that are written, and from how many draws."""

SPREAD = "spread"
"""The column of the standard deviation over networks."""

VALUE_IN_A_TABLE, VALUE_IN_A_TENSOR = 60, 4
"""The bytes of a number as Python's, with its text in a CSV file, and as torch's."""


def predicted(
    run: Run,
    data: Any,
    to: Domain | None,
    nodes: str | Path | None,
    keep: Sequence[str],
    top: int | None,
    notify: Callable[[str], None],
) -> Iterator[Columns]:
    """The columns of the predictions of a run, of a table some rows at a time; rows are named as their file does."""
    if top is not None:
        at_least(1, top=top)
        if run.info["data"]["kind"] != "ratings":
            raise UsageError(
                "only items that are rated can be recommended, and this run has no ratings; leave out --top"
            )
    maps = isinstance(run.model, Maps)
    known = maps or isinstance(run.model, Translates | Forecasts)
    model: Any = run.model if known else run.model_that_can("predict")
    if to is not None and not maps:
        raise UsageError(f"{model.name()} does not map examples to another domain; leave out --to")
    with as_file(data) as examples:
        path = isinstance(examples, str | Path)
        name = own_name(run.folder) if examples is None else str(examples) if path else None
        table = None if name is None or known or nodes is not None else new_table(run.folder, name)
        if table is not None:
            yield from table_predictions(model, table, run.info["data"], keep)
        elif keep:
            raise UsageError(f"only rows of a table in a file have columns to keep; leave out --keep {','.join(keep)}")
        elif name is not None:
            rows = new_rows(run.folder, model, name, labeled=False, nodes=nodes)
            columns, names = _columns(run, model, rows, to), names_of_rows(run.folder, name, nodes)
            if isinstance(rows, Incomplete):
                if strangers := int(rows.x.isnan().all(1).sum()):
                    notify(
                        f"{name} has no rating by {counted(strangers, 'user', ',')}, whose predictions are those for "
                        "anyone, since a run keeps no one's ratings; add theirs to the file."
                    )
                columns, names = rated_pairs(columns, names, rows, name, top)
            columns = after_names(columns, names)
            yield with_files(columns, name, run.info["data"], notify) if path else columns
        else:
            given = examples
            batch = given if isinstance(given, AnyBatch) else Batch(given) if isinstance(given, Tensor) else None
            rows = of(given).train if batch is None else batch
            columns = _columns(run, model, rows, to)
            yield columns if top is None else best_pairs(columns, None, rows.x.isnan(), top)


def _columns(run: Run, model: Any, rows: AnyBatch, to: Domain | None) -> Columns:
    """The columns of the predictions for these rows."""
    if isinstance(model, Forecasts):
        return run.forecast(data=rows)
    if isinstance(model, Maps):
        return mapped(model, rows, to or "y")
    return (written if isinstance(model, Translates) else predictions)(model, rows, run.info["data"])


def predictions(model: Any, rows: AnyBatch, data: Mapping[str, Any]) -> Columns:
    """The columns of a table of predictions: the class and every class's probability, or the quantity itself.

    Next to a quantity stand quantiles of its distribution, where the model has learned one, or the standard deviation
    of the predictions of several networks. Of rows with missing entries these are the rows, with the expectation of
    each that is missing.

    ``data`` is what ``run.json`` says of the data the model was trained on.
    """
    parts = list(Batches(rows, ROWS_AT_ONCE))
    mode = torch.cat([model.predict(*part.inputs, how="mode") for part in parts])
    mean = torch.cat([model.predict(*part.inputs, how="mean") for part in parts])
    if isinstance(rows, Incomplete):
        names = data["preprocessing"].get("columns") or [f"item_{item + 1}" for item in range(mean.shape[1])]
        return {name: mean[:, item].tolist() for item, name in enumerate(names)}
    if not mode.is_floating_point():
        labels = data["labels"] or [str(label) for label in range(mean.shape[-1])]
        shares = {f"probability_{label}": mean[:, place].tolist() for place, label in enumerate(labels)}
        return {"prediction": [labels[place] for place in mode.tolist()], **shares}
    found = {"prediction": mean.double(), **_spread(model, parts)}
    columns: Columns = {}
    for name, values in found.items():
        if data["preprocessing"].get("target"):
            values = (_in_units if name == SPREAD else in_original_units)(values, data["preprocessing"])
        names = [name] if values.shape[1] == 1 else [f"{name}_{target + 1}" for target in range(values.shape[1])]
        columns |= {each: values[:, target].tolist() for target, each in enumerate(names)}
    return columns


def table_predictions(model: Any, path: Path, data: Mapping[str, Any], keep: Sequence[str]) -> Iterator[Columns]:
    """The predictions for the rows of a table, some at a time, after the columns that name rows and those to keep.

    Categories that the training data do not have are said on stderr, after the last row.
    """
    table = Table.from_json(data["preprocessing"])
    ids = [column.name for column in table.dropped if column.names_rows]
    unknown: dict[str, Unknown] = {}
    for piece in read_pieces(path, [*words_of(table), *ids, *keep]):
        kept = dict.fromkeys([*(name for name in ids if name in piece.columns), *keep])
        for name in kept:
            piece.column(name)
        columns = predictions(model, Batch(table.x(piece)), data)
        if taken := [name for name in kept if name in columns]:
            raise UsageError(f"the predictions have a column {taken[0]!r}, too; leave it out of what is kept")
        for name, each in table.unknown(piece).items():
            unknown[name] = unknown[name] + each if name in unknown else each
        yield {**{name: piece.texts(name) for name in kept}, **columns}
    say_unknown(unknown)


def _spread(model: Any, parts: Sequence[AnyBatch]) -> dict[str, Tensor]:
    """How far a quantity may be from its prediction, as far as the model has learned that."""
    if _learns_distribution(model):
        levels = torch.cat([_quantiles(model, part) for part in parts], 1)
        return {f"quantile_{level}": values for level, values in zip(LEVELS, levels, strict=True)}
    if getattr(model, "averages", False) and hasattr(model, "std"):
        return {SPREAD: torch.cat([model.std(*part.inputs) for part in parts]).double()}
    return {}


@torch.no_grad()
def _quantiles(model: Any, part: AnyBatch) -> Tensor:
    """The quantiles of the predictions for a batch, (levels, B, targets); what torch does not know of them is drawn."""
    levels = torch.tensor(LEVELS, dtype=torch.float64)
    try:
        known: Tensor = model.quantiles(*part.inputs, levels=levels).double()
    except (AttributeError, NotImplementedError):  # as of the Poisson distribution in torch
        generator = Generator().manual_seed(0)
        draws = [model.predict(*part.inputs, how="sample", generator=generator) for _ in range(DRAWS)]
        return torch.stack(draws).double().quantile(levels, 0)
    return known


def _learns_distribution(model: Any) -> bool:
    """Whether the spread of a model's samples is learned, by a head or a family; else it is one by convention."""
    innermost = model
    while isinstance(getattr(innermost, "model", None), Model):
        innermost = innermost.model
    return getattr(innermost, "output_head", None) is not None or getattr(innermost, "family", "gaussian") != "gaussian"


def _in_units(spread: Tensor, preprocessing: Mapping[str, Any]) -> Tensor:
    """A standard deviation of a standardized target in the units of the file."""
    zero = in_original_units(torch.zeros_like(spread), preprocessing)
    return in_original_units(spread, preprocessing) - zero


def joined(parts: Iterable[Columns]) -> Columns:
    """The columns of consecutive parts, one below the other."""
    columns: Columns = {}
    for part in parts:
        for name, values in part.items():
            columns.setdefault(name, []).extend(values)
    return columns


def rated_pairs(
    columns: Columns, names: Columns, rows: Incomplete, data: str, top: int | None
) -> tuple[Columns, Columns]:
    """Predicted ratings as rows of user, item and prediction, if those of the file are such rows, too, or for ``top``.

    They are those that the file asks for: its rows without a rating, or else all that are not there; with ``top`` so
    many of each user, the best first. Else the columns are returned as they are, with the names of their rows.
    """
    found = asked_ratings(data, list(columns))
    if found is not None:
        return best_pairs(columns, *found, top), names
    if top is None:
        return columns, names
    users = next(iter(names.values()), None)
    return best_pairs(columns, users, rows.x.isnan(), top), {}


def best_pairs(columns: Columns, users: Sequence[Any] | None, asked: Tensor, top: int | None) -> Columns:
    """Rows of user, item and prediction where it is asked for, (users, items); of each user the best ``top``, or all.

    Users without names are numbered from 1 on.

    >>> best_pairs({"Alien": [2.5, 3.0], "Dune": [4.5, 1.0]}, ["ann", "bob"], torch.ones(2, 2).bool(), 1)
    {'user': ['ann', 'bob'], 'item': ['Dune', 'Alien'], 'prediction': [4.5, 3.0]}
    """
    items = list(columns)
    pairs = asked.nonzero().tolist()
    if top is not None:
        by_user = [
            sorted(own, key=lambda pair: -columns[items[pair[1]]][pair[0]]) for _, own in groupby(pairs, itemgetter(0))
        ]
        pairs = [pair for own in by_user for pair in own[:top]]
    return {
        "user": [user + 1 if users is None else users[user] for user, _ in pairs],
        "item": [items[item] for _, item in pairs],
        "prediction": [columns[items[item]][user] for user, item in pairs],
    }


@torch.no_grad()
def mapped(model: Maps, rows: AnyBatch, to: Domain) -> Columns:
    """The columns of a table of examples mapped to a domain, flat; of data of both domains those of the other one."""
    x = rows.y if to == "x" and isinstance(rows, TwoDomains) else rows.x
    images = torch.cat([model.map(part, to=to) for part in x.split(ROWS_AT_ONCE)]).flatten(1)
    return {f"{to}{i + 1}": images[:, i].tolist() for i in range(images.shape[1])}


def after_names(columns: dict[str, list[Any]], names: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The columns after what the rows are called; a name that they have already is not lost.

    >>> after_names({"prediction": ["a"]}, {"node": ["n1"], "prediction": ["b"]})
    {'node': ['n1'], 'prediction_given': ['b'], 'prediction': ['a']}
    """
    return {f"{name}_given" if name in columns else name: values for name, values in names.items()} | columns


def with_files(
    columns: dict[str, list[Any]], data: str, about: Mapping[str, Any], notify: Callable[[str], None]
) -> dict[str, list[Any]]:
    """The columns after one of file names, if these data are images in files; ``notify`` hears of files that are none.

    ``about`` is what ``run.json`` says of the data the model was trained on.
    """
    if kind_of_path(data, about["preprocessing"]) != "images":
        return columns
    names, others = image_names(data, about["target"])
    if others:
        notify(f"{data} also has files that are not images by their names, and were left out: {others}.")
    return {"file": names, **columns} if names else columns


def sampled_rows(drawn: Tensor, data: Mapping[str, Any], given: str | int | None) -> dict[str, list[Any]]:
    """Samples as the columns of the table that the model has learned from, with the target that they were given."""
    rows = original_rows(drawn, data["preprocessing"])
    return rows if given is None or data["target"] is None else {**rows, data["target"]: [given] * len(drawn)}


def check_room(n: int, shape: Sequence[int], table: bool) -> None:
    """Refuse so many samples of this shape if they do not fit into memory, as a table or as a tensor."""
    size = n * math.prod(shape) * (VALUE_IN_A_TABLE if table else VALUE_IN_A_TENSOR)
    need(size, f"a draw of {counted(n, 'sample', ',')}", "draw fewer by -n, several times with another --seed each")


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write named columns; numbers have nine digits, which give every float32 back exactly."""
    with writing(with_folder(path)) as file:
        write_parts(file, [columns])


def write_parts(file: TextIO, parts: Iterable[Mapping[str, Sequence[Any]]]) -> tuple[int, list[str]]:
    """Write consecutive parts of named columns as one CSV file; the number of rows, and the names."""
    writer, rows, names = csv.writer(file, lineterminator="\n"), 0, list[str]()
    for part in parts:
        if not names:
            names = list(part)
            writer.writerow(names)
        texts = [[f"{v:.9g}" if isinstance(v, float) else v for v in values] for values in part.values()]
        writer.writerows(zip(*texts, strict=True))
        rows += len(next(iter(part.values())))
    return rows, names
