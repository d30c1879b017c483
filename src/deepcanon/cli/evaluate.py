"""The command ``evaluate``, and the report on a run that ``train`` and ``resume`` print too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from deepcanon.cli._parse import Folder, Json, Nodes, Own, Threads, use_threads
from deepcanon.cli._print import Output, show_number, without_repetition
from deepcanon.core.plural import counted

if TYPE_CHECKING:
    from deepcanon.runs.run import Run
    from deepcanon.train.health import Examined

MOST_CLASSES = 12
"""Of more classes than these, only those with the lowest recall are printed."""


def evaluate(
    run: Folder,
    data: Annotated[str | None, typer.Option(help="Other data than the run's own.", metavar="D")] = None,
    nodes: Nodes = None,
    likelihood: Annotated[
        str | None,
        typer.Option(help="Which likelihood, where a model has several: of diffusion, bound or flow.", metavar="NAME"),
    ] = None,
    pictures: Annotated[bool, typer.Option("--pictures", help="Draw the pictures of the run, too.")] = False,
    threads: Threads = None,
    own: Own = None,
    json: Json = False,
) -> None:
    """Measure a trained model, on its own data or on others."""
    from deepcanon.runs.examining import examine_run
    from deepcanon.runs.run import Run

    use_threads(threads)
    opened, out = Run(run, own), Output(json)
    if nodes is None and opened.changed(data):
        out.say(f"{opened.data.name} has changed since {run} was trained, so what it holds counts as new.")
    found = examine_run(opened, data, nodes, likelihood)
    if pictures:
        opened.draw()
    report(out, opened, found, data)


def report(out: Output, run: Run, found: Examined, data: str | None = None) -> None:
    """Print the metrics of a run on each split of the data, next to its baseline, and what they come to."""
    if not out.first:
        return
    info, scores = run.info, found.scores
    facts = {
        "run": run.dir,
        "model": info["model"]["model"],
        "data": data or info["data"]["name"],
        "parameters": info["parameters"],
        "steps": info["results"]["steps"],
        "seconds": info["results"]["seconds"],
        "weights": info["weights"],
    }
    out.say(
        f"{facts['model']} on {facts['data']}: {counted(facts['parameters'], 'parameter', ',')}, "
        f"{counted(facts['steps'], 'step', ',')}, {facts['seconds']:.1f} s; weights: {facts['weights']}"
    )
    _table(out, found)
    target = info["data"]["preprocessing"].get("target")
    standardized = target is not None and "rmse" in scores["test"] and (target["mean"], target["std"]) != (0, 1)
    if standardized:
        out.say(
            f"The errors in the table are in units of the target's standard deviation: of {target['name']!r}, "
            f"{show_number(target['std'])} in its own units, which predict gives."
        )
    if "series" in info["data"]["preprocessing"] and info["data"]["preprocessing"].get("form") != "raw":
        out.say(
            "The scores in the table are in units of the standard deviation of each series, forecasts in those of the "
            "file."
        )
    _classes(out, found, info["data"]["labels"])
    if "baselines" in info:
        by = getattr(type(run.model), "compared", "") or "on the same labels"
        out.table([by, "accuracy"], list(info["baselines"].items()), numbers=["accuracy"])
        facts["baselines"] = info["baselines"]
    says = [*found.says, *info["results"].get("course", [])]
    for sentence in says:
        out.say(sentence)
    if not any(scores.values()):
        out.say(f"It was not evaluated; to do so: deepcanon evaluate {run.dir}")
    drawn = run.settings["pictures"] or run.folder.pictures.is_dir()
    shown = f", its pictures in {run.folder.pictures}" if drawn else ""
    out.say(f"The run is in {run.dir}{shown}.")
    out.result({**facts, **scores, "baseline": found.baseline, "by_class": found.by_class, "says": says})


def _table(out: Output, found: Examined) -> None:
    """The metrics by split; what the baseline reaches on held-out data stands next to them."""
    columns = {part: metrics for part, metrics in found.scores.items() if metrics}
    names = without_repetition(columns)
    if found.baseline is not None:
        split = next((part for part in ("test", "valid", "train") if part in columns), "train")
        columns[f"{found.baseline['name']}, {split}"] = found.baseline[split]  # type: ignore[literal-required]
    # A metric that is there without a number was infinite or NaN, which JSON does not have.
    rows = [
        [name, *("not finite" if metrics.get(name, "") is None else metrics.get(name) for metrics in columns.values())]
        for name in names
    ]
    if rows:
        out.table(["", *columns], rows, numbers=list(columns))


def _classes(out: Output, found: Examined, labels: Sequence[str]) -> None:
    """The scores of each class on held-out data; of many classes those of which the fewest examples are found."""
    split = next((part for part in ("test", "valid", "train") if part in found.by_class), None)
    if split is None:
        return
    names = labels or [str(place) for place in range(len(found.by_class[split]))]
    classes = [pair for pair in zip(names, found.by_class[split], strict=False) if pair[1]["examples"]]
    if len(classes) > MOST_CLASSES:
        out.say(f"The {MOST_CLASSES} of {counted(len(classes), 'class', '', 'classes')} with the lowest recall:")
        classes = sorted(classes, key=lambda pair: pair[1]["recall"] or 0.0)[:MOST_CLASSES]
    columns = ["examples", "found", "recall", "precision", "f1", "roc_auc", "pr_auc"]
    rows = [[name, *(each[column] for column in columns)] for name, each in classes]  # type: ignore[literal-required]
    out.table([f"class, on {split}", *columns], rows, numbers=columns)
