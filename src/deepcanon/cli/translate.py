"""The command ``translate``."""

from __future__ import annotations

from typing import Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Own
from deepcanon.cli._print import Output


def translate(
    run: Folder,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="The texts to translate, one in quotes each.")],
    beams: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many translations a beam search keeps; 1 is greedy.")
    ] = 1,
    own: Own = None,
    json: Json = False,
) -> None:
    """Translate texts with a trained model."""
    from deepcanon.runs.run import Run

    opened = Run(run, own)
    translations = opened.translate(*texts, beams=beams)
    printer = Output(json)
    for translation in translations:
        printer.verbatim(translation)
    printer.result({"run": run, "model": opened.model.name(), "texts": texts, "translations": translations})
