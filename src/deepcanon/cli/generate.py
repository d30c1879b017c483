"""The command ``generate``."""

from __future__ import annotations

from typing import Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Own, Seed
from deepcanon.cli._print import Output
from deepcanon.core.settings import LARGEST


def generate(
    run: Folder,
    prompt: Annotated[str | None, typer.Option(help="The text to continue; by default it begins anew.")] = None,
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many tokens to add.")] = 200,
    temperature: Annotated[
        float, typer.Option(help="Sharpens the softmax below 1, flattens it above; 0 is greedy.")
    ] = 1.0,
    top_k: Annotated[
        int | None, typer.Option(min=1, max=LARGEST, help="Sample among the k most probable tokens only.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Nucleus sampling: among the most probable tokens of this total probability.")
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(help="End at this token; by default at the end token of data that have one.", metavar="TOKEN"),
    ] = None,
    seed: Seed = 0,
    own: Own = None,
    json: Json = False,
) -> None:
    """Generate text with a trained model, from a prompt on."""
    from deepcanon.runs.run import Run

    opened = Run(run, own)
    text = opened.generate(
        prompt, steps, temperature=temperature, top_k=top_k, top_p=top_p, stop=stop, seed=seed
    )  # fmt: skip
    printer = Output(json)
    printer.verbatim(text)
    printer.result({"run": run, "model": opened.model.name(), "prompt": prompt, "text": text})
