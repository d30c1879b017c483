"""The command ``nearest``."""

from __future__ import annotations

from typing import Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Own
from deepcanon.cli._print import Output
from deepcanon.core.settings import LARGEST


def nearest(
    run: Folder,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="One word or several.")],
    n: Annotated[int, typer.Option("-n", min=1, max=LARGEST, help="How many neighbors of each.")] = 10,
    own: Own = None,
    json: Json = False,
) -> None:
    """Show the words whose vectors are nearest to those of given words."""
    from deepcanon.runs.run import Run

    opened = Run(run, own)
    found = {word: opened.nearest(word, n) for word in words}
    out = Output(json)
    for word, near in found.items():
        out.table([f"nearest to {word}", "cosine"], near, numbers=["cosine"])
    out.result(
        {"run": run, "model": opened.model.name(), "nearest": {word: dict(near) for word, near in found.items()}}
    )
