"""The command ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Overwrite, Own
from deepcanon.cli._print import Output


def export(
    run: Folder,
    to: Annotated[Path, typer.Option(help="The file to write, FILE.onnx or FILE.safetensors.", metavar="FILE")],
    part: Annotated[str | None, typer.Option(help="Only this part of the model, as decoder.")] = None,
    forward: Annotated[
        bool, typer.Option("--forward", help="Of a table, the network alone: features in, logits out.")
    ] = False,
    overwrite: Overwrite = False,
    own: Own = None,
    json: Json = False,
) -> None:
    """Write a trained model, or a part of it, for other programs; of a method, the plain model that it wraps."""
    from deepcanon.core.hints import listed
    from deepcanon.runs.exporting import columns_taken
    from deepcanon.runs.run import Run

    opened = Run(run, own)
    difference = opened.export(to, part=part, forward=forward, overwrite=overwrite)
    name, printer = opened.plain.name(), Output(json)
    printer.say(f"{name if part is None else f'The {part} of {name}'} is in {to}")
    columns = columns_taken(to, part, opened.info["data"], forward)
    if columns:
        printer.say(
            f"It takes the columns of the table by name ({listed(columns)}) and gives predictions in its units."
        )
    if difference is not None:
        printer.say(f"In onnxruntime it differs from torch by at most {difference:.1g}.")
    printer.result({"run": run, "model": name, "part": part, "to": to, "columns": columns, "difference": difference})
