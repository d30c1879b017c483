"""The command ``sample``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Overwrite, Own, Seed
from deepcanon.cli._print import Output
from deepcanon.core.plural import counted
from deepcanon.core.settings import LARGEST


def sample(
    run: Folder,
    out: Annotated[Path, typer.Option(help="A picture or a table of numbers.", metavar="FILE.png|FILE.csv")],
    n: Annotated[int, typer.Option("-n", min=1, max=LARGEST, help="How many samples.")] = 64,
    given: Annotated[
        str | None,
        typer.Option(help="The class to sample, of a class-conditional model, or a caption.", metavar="CLASS|CAPTION"),
    ] = None,
    guidance: Annotated[float, typer.Option(help="The weight of classifier-free guidance; 0 is none.")] = 0.0,
    sampler: Annotated[
        str | None,
        typer.Option(help="How to draw, where a model has several ways: ancestral, ddim ...", metavar="NAME"),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=LARGEST, help="How many steps the sampler takes.")] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    own: Own = None,
    json: Json = False,
) -> None:
    """Draw samples from a trained model: a grid of images, a cloud of points, or a table of numbers."""
    from deepcanon.runs.run import Run

    opened = Run(run, own)
    opened.sample(
        n, given=given, guidance=guidance, sampler=sampler, steps=steps, seed=seed, out=out, overwrite=overwrite
    )
    printer = Output(json)
    printer.say(f"{counted(n, 'sample')} of {opened.model.name()} are in {out}")
    printer.result({"run": run, "model": opened.model.name(), "n": n, "out": out})
