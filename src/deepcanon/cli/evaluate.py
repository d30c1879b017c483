"""The command ``evaluate``, and the report on a run that ``train`` and ``resume`` print too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Threads, use_threads
from deepcanon.cli._print import Output, show_number

if TYPE_CHECKING:
    from deepcanon.runs.run import Run


def evaluate(
    run: Folder,
    data: Annotated[str | None, typer.Option(help="Other data than the run's own.", metavar="D")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure a trained model, on its own data or on others."""
    from deepcanon.runs.run import Run

    use_threads(threads)
    opened, out = Run(run), Output(json)
    if opened.changed(data):
        out.say(f"{opened.data.name} has changed since {run} was trained, so what it holds counts as new.")
    report(out, opened, opened.evaluate(data), data)


def report(out: Output, run: Run, scores: Mapping[str, Mapping[str, float]], data: str | None = None) -> None:
    """Print the metrics of a run on each split of the data."""
    if not out.first:
        return
    info = run.info
    facts = {
        "run": run.dir,
        "model": info["model"]["model"],
        "data": data or info["data"]["name"],
        "parameters": info["parameters"],
        "steps": info["results"]["steps"],
        "seconds": info["results"]["seconds"],
    }
    out.say(
        f"{facts['model']} on {facts['data']}: {facts['parameters']:,} parameters, {facts['steps']:,} steps, "
        f"{facts['seconds']:.1f} s"
    )
    parts = [part for part, metrics in scores.items() if metrics]
    names = dict.fromkeys(name for part in parts for name in scores[part])
    out.table(["", *parts], [[name, *(scores[part].get(name) for part in parts)] for name in names], numbers=parts)
    target = info["data"]["preprocessing"].get("target")
    standardized = target is not None and {"mse", "mae"} <= names.keys() and (target["mean"], target["std"]) != (0, 1)
    if standardized:
        out.say(
            f"mse and mae are in units of the target's standard deviation: of {target['name']!r}, "
            f"{show_number(target['std'])} in its own units, which predict gives."
        )
    if "baselines" in info:
        out.table(["on the same labels", "accuracy"], list(info["baselines"].items()), numbers=["accuracy"])
        facts["baselines"] = info["baselines"]
    out.say(f"The run is in {run.dir}, its pictures in {run.folder.pictures}.")
    out.result({**facts, **scores})
