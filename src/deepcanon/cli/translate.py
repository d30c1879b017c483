"""The command ``translate``."""

from __future__ import annotations

from typing import Annotated

import typer

from deepcanon.cli._parse import Exact, Folder, Json, LengthPenalty, Own, Top
from deepcanon.cli._print import Output


def translate(
    run: Folder,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="The texts to translate, one in quotes each, or images to caption."),
    ],
    beams: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="How many translations a beam search keeps; 1, which is greedy, or as many as --top.",
        ),
    ] = None,
    exact: Exact = False,
    top: Top = None,
    length_penalty: LengthPenalty = 0.0,
    own: Own = None,
    json: Json = False,
) -> None:
    """Translate texts, or caption images, with a trained model."""
    from deepcanon.runs.run import Run

    opened, printer = Run(run, own), Output(json)
    about = {"run": run, "model": opened.model.name(), "texts": texts}
    if top is None:
        translations = opened.translate(*texts, beams=beams or 1, length_penalty=length_penalty, exact=exact)
        for translation in translations:
            printer.verbatim(translation)
        printer.result({**about, "translations": translations})
        return
    opened.model_that_can("translate")
    several = [
        opened.most_probable(given=text, top=top, beams=beams, exact=exact, length_penalty=length_penalty)
        for text in texts
    ]
    for text, found in zip(texts, several, strict=True):
        printer.table([text, "log-probability"], found, numbers=["log-probability"])
    rows = [[{"text": text, "log_prob": log_prob} for text, log_prob in found] for found in several]
    printer.result({**about, "most_probable": rows})
