"""The command ``generate``."""

from __future__ import annotations

from typing import Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Seed
from deepcanon.cli._print import Output


def generate(
    run: Folder,
    prompt: Annotated[str, typer.Option(help="The text to go on from.")] = "\n",
    steps: Annotated[int, typer.Option(min=1, help="How many tokens to add.")] = 200,
    temperature: Annotated[float, typer.Option(help="Below 1 more careful, above 1 more daring.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Choose among the k likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Choose among the likeliest that make up this share.")] = None,
    stop: Annotated[str | None, typer.Option(help="End at this token.", metavar="TOKEN")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Generate text with a trained model, from a prompt on."""
    from deepcanon.runs.run import Run

    opened = Run(run)
    text = opened.generate(
        prompt, steps, temperature=temperature, top_k=top_k, top_p=top_p, stop=stop, seed=seed
    )  # fmt: skip
    voice = Output(json)
    voice.say(text)
    voice.answer({"run": run, "model": opened.model.name(), "prompt": prompt, "text": text})
