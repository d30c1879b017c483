"""The command ``forecast``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Overwrite, Own, Seed
from deepcanon.cli._print import Output
from deepcanon.core.plural import counted
from deepcanon.core.settings import LARGEST

SHOWN = 24


def forecast(
    run: Folder,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000, help="How many steps; by default, as many as the series have to compare with."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=2, max=LARGEST, help="How many sample paths the quantiles are of.")] = 100,
    data: Annotated[
        str | None, typer.Option(help="The series to forecast; by default, the run's own test data.", metavar="D")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A table of quantiles or a picture.", metavar="FILE.csv|FILE.png")
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    own: Own = None,
    json: Json = False,
) -> None:
    """Forecast time series from their origins on, or videos from their middle: a table of quantiles, or a picture."""
    from deepcanon.runs.run import Run

    opened = Run(run, own)
    columns = opened.forecast(steps, samples=samples, data=data, seed=seed, out=out, overwrite=overwrite)
    model, noun = opened.model.name(), "video" if "video" in columns else "series"
    steps_each, values = max(columns["step"]), columns["step"].count(1)
    several = next((len({*columns[name]}) for name in ("feature", "target", "pixel") if name in columns), 1)
    count = values // several
    printer = Output(json)
    if out is None:
        rows = list(zip(*columns.values(), strict=True))[:SHOWN]
        words = [name for name, column in columns.items() if isinstance(column[0], str)]
        printer.table(list(columns), rows, numbers=[name for name in columns if name not in words])
        left = len(columns["step"]) - len(rows)
        printer.say(f"{counted(left, 'further row')}; --out FILE.csv writes all of them" if left else "")
    else:
        printer.say(f"forecasts of {count} {'series' if noun == 'series' else f'{noun}s'} by {model} are in {out}")
    printer.result({"run": run, "model": model, noun: count, "steps": steps_each, "out": out})
