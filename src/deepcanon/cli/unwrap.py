"""The command ``unwrap``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.cli._parse import Folder, Json, OverwriteRun, Own
from deepcanon.cli._print import Output


def unwrap(
    run: Folder,
    out: Annotated[Path, typer.Option(help="The folder for the run of the plain model.", metavar="DIR")],
    overwrite: OverwriteRun = False,
    own: Own = None,
    json: Json = False,
) -> None:
    """Write the model that a method has trained as a run of its own; what LoRA has added is merged into its weights."""
    from deepcanon.cli.evaluate import report
    from deepcanon.runs.examining import as_trained
    from deepcanon.runs.run import Run

    plain = Run(run, own).unwrap(out, overwrite=overwrite)
    printer = Output(json)
    printer.say(f"The {plain.model.name()} inside {run} is in {out}.")
    report(printer, plain, as_trained(plain))
