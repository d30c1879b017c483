"""Predictions in the units of the user's table, and tables as CSV files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from deepcanon.core import AnyBatch, Incomplete, TwoDomains
from deepcanon.core.files import with_folder, write_whole
from deepcanon.core.memory import need
from deepcanon.core.plural import counted
from deepcanon.core.roles import Domain, Maps
from deepcanon.data import Batches, in_original_units

ROWS_AT_ONCE = 1024
VALUE_IN_A_TABLE, VALUE_IN_A_TENSOR = 60, 4
"""The bytes of a number as Python's, with its text in a CSV file, and as torch's."""


def predictions(model: Any, rows: AnyBatch, data: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of a table of predictions: the class and every class's probability, or the quantity itself.

    Of rows with missing entries these are the rows, with the expectation of each that is missing.

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
    values = in_original_units(mean.double(), data["preprocessing"]) if data["kind"] == "table" else mean
    if values.shape[1] == 1:
        return {"prediction": values[:, 0].tolist()}
    return {f"prediction_{target + 1}": values[:, target].tolist() for target in range(values.shape[1])}


@torch.no_grad()
def mapped(model: Maps, rows: AnyBatch, to: Domain) -> dict[str, list[Any]]:
    """The columns of a table of examples mapped to a domain, flat; of data of both domains those of the other one."""
    x = rows.y if to == "x" and isinstance(rows, TwoDomains) else rows.x
    images = torch.cat([model.map(part, to=to) for part in x.split(ROWS_AT_ONCE)]).flatten(1)
    return {f"{to}{i + 1}": images[:, i].tolist() for i in range(images.shape[1])}


def check_room(n: int, shape: Sequence[int], table: bool) -> None:
    """Refuse so many samples of this shape if they do not fit into memory, as a table or as a tensor."""
    size = n * math.prod(shape) * (VALUE_IN_A_TABLE if table else VALUE_IN_A_TENSOR)
    need(size, f"a draw of {counted(n, 'sample', ',')}", "draw fewer by -n, several times with another --seed each")


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write named columns; numbers have nine digits, which give every float32 back exactly."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([f"{value:.9g}" if isinstance(value, float) else value for value in row])
    write_whole(with_folder(path), text.getvalue())
