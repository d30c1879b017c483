"""The command ``predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from deepcanon.cli._parse import Folder, Json, Overwrite, Own
from deepcanon.cli._print import Output
from deepcanon.core.plural import counted


def predict(
    run: Folder,
    out: Annotated[Path, typer.Option(help="The CSV file to write.", metavar="FILE.csv")],
    data: Annotated[
        str | None, typer.Option(help="The rows to predict; by default, the run's own test data.", metavar="D")
    ] = None,
    to: Annotated[
        Literal["x", "y"] | None, typer.Option(help="The domain to map to, of a model of two domains; y by default.")
    ] = None,
    overwrite: Overwrite = False,
    own: Own = None,
    json: Json = False,
) -> None:
    """Write predictions for all rows of a CSV file, one image, those of a folder or the test split of a data set."""
    from deepcanon.runs.run import Run

    opened, printer = Run(run, own), Output(json)
    columns = opened.predict(data, to=to, out=out, overwrite=overwrite, notify=printer.say)
    model, count = opened.model.name(), len(next(iter(columns.values())))  # of a graph, its nodes
    printer.say(f"{counted(count, 'prediction')} of {model} are in {out}; its columns: {', '.join(columns)}")
    printer.result({"run": run, "model": model, "rows": count, "columns": list(columns), "out": out})
