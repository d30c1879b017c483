"""The command ``predict``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from deepcanon.cli._parse import Folder, Json, Nodes, Overwrite, Own
from deepcanon.cli._print import Output
from deepcanon.core.errors import DeepcanonError, UsageError
from deepcanon.core.plural import counted

STANDARD = "-"
"""Standard input or output in place of a file."""


def predict(
    run: Folder,
    out: Annotated[
        Path | None, typer.Option(help="The CSV file to write; without it, standard output.", metavar="FILE.csv")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="The rows to predict, - for standard input; by default, the run's own data.", metavar="D"),
    ] = None,
    keep: Annotated[
        str, typer.Option(help="Columns of the rows that are written, too, with commas between them.", metavar="A,B")
    ] = "",
    top: Annotated[
        int | None, typer.Option(help="Recommend to each user so many items that are not rated, the best first.")
    ] = None,
    to: Annotated[
        Literal["x", "y"] | None, typer.Option(help="The domain to map to, of a model of two domains; y by default.")
    ] = None,
    nodes: Nodes = None,
    overwrite: Overwrite = False,
    own: Own = None,
    json: Json = False,
) -> None:
    """Write predictions for all rows of a CSV file, a graph, one image, those of a folder or the test split of data."""
    path = None if out is None or str(out) == STANDARD else out
    if path is None and json:
        raise UsageError("--json prints to standard output, where the predictions would stand; name a file by --out")
    from deepcanon.core.files import with_folder, writable, writing
    from deepcanon.runs.run import Run

    opened, printer = Run(run, own), Output(json)
    asked = [name for name in keep.split(",") if name]
    if path is None:
        with _read(data) as rows, tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as file:
            opened.write_predictions(file, rows, to=to, nodes=nodes, keep=asked, top=top, notify=_warn)
            file.seek(0)  # what stands in standard output is all of it, or nothing
            shutil.copyfileobj(file, sys.stdout)
        return
    writable(path, overwrite, ".csv")
    with _read(data) as rows, writing(with_folder(path)) as file:
        count, columns = opened.write_predictions(
            file, rows, to=to, nodes=nodes, keep=asked, top=top, notify=printer.say
        )
    model = opened.model.name()
    printer.say(f"{counted(count, 'prediction')} of {model} are in {path}; its columns: {', '.join(columns)}")
    printer.result({"run": run, "model": model, "rows": count, "columns": columns, "out": path})


def _warn(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


@contextmanager
def _read(data: str | None) -> Iterator[str | None]:
    """The data as they are named; standard input as a file of its content."""
    if data != STANDARD:
        yield data
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.csv"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield str(path)
        except DeepcanonError as error:
            raise type(error)(str(error).replace(str(path), "standard input")) from error
