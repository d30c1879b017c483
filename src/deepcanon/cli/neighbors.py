"""The command that asks a trained model for the neighbors of words."""

from __future__ import annotations

from typing import Annotated

import typer

from deepcanon.cli.output import Json, Output
from deepcanon.cli.training import Folder


def nearest(
    run: Folder,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="One word or several.")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many neighbors of each.")] = 10,
    json: Json = False,
) -> None:
    """Show the words whose vectors are nearest to those of given words."""
    import deepcanon
    from deepcanon.core import UsageError
    from deepcanon.core.roles import HasNeighbors

    model = deepcanon.load(run)
    if not isinstance(model, HasNeighbors):
        raise UsageError(f"{model.name()} has no word vectors, so no word has neighbors; word2vec has some")
    found = {word: model.nearest(word, n) for word in words}
    out = Output(json)
    for word, near in found.items():
        out.table([f"nearest to {word}", "cosine"], near, numbers=["cosine"])
    out.answer({"run": run, "model": model.name(), "nearest": {word: dict(near) for word, near in found.items()}})
