"""The command ``generate``."""

from __future__ import annotations

from typing import Annotated

import typer

from deepcanon.cli._parse import Exact, Folder, Json, LengthPenalty, Own, Seed, Top
from deepcanon.cli._print import Output
from deepcanon.core.errors import UsageError
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
    beams: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="In place of a random text, the most probable one that so many beams find."
        ),
    ] = None,
    exact: Exact = False,
    top: Top = None,
    length_penalty: LengthPenalty = 0.0,
    stop: Annotated[
        str | None,
        typer.Option(help="End at this token; by default at the end token of data that have one.", metavar="TOKEN"),
    ] = None,
    given: Annotated[
        str | None,
        typer.Option(help="The source of a model that translates or captions: a text, or an image.", metavar="SOURCE"),
    ] = None,
    seed: Seed = 0,
    own: Own = None,
    json: Json = False,
) -> None:
    """Generate text with a trained model, from a prompt on: a random one, or the most probable."""
    searches = beams is not None or exact
    if searches and (temperature != 1 or top_k is not None or top_p is not None or seed):
        raise UsageError("a search draws nothing: leave out temperature, top-k, top-p and seed, or beams and exact")
    if not searches and (top is not None or length_penalty):
        raise UsageError("top and length-penalty are those of a search: give --beams or --exact, too")
    from deepcanon.runs.run import Run

    opened, printer = Run(run, own), Output(json)
    about = {"run": run, "model": opened.model.name(), "prompt": prompt}
    if not searches:
        text = opened.generate(
            prompt, steps, temperature=temperature, top_k=top_k, top_p=top_p, stop=stop, given=given, seed=seed
        )  # fmt: skip
        printer.verbatim(text)
        printer.result({**about, "text": text})
        return
    found = opened.most_probable(
        prompt, steps, top=top or 1, beams=beams, exact=exact, length_penalty=length_penalty, stop=stop, given=given
    )  # fmt: skip
    for text, log_prob in found:
        if top is not None:
            printer.say(f"{log_prob:.4g} nats:")
        printer.verbatim(text)
    printer.result({**about, "texts": [{"text": text, "log_prob": log_prob} for text, log_prob in found]})
