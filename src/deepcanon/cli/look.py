"""Commands that look around: the models, one model, the data sets, the runs."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli.output import Json, Output

if TYPE_CHECKING:
    from collections.abc import Mapping


def list_models(
    family: Annotated[str | None, typer.Option(help="Only the models of this family.")] = None,
    json: Json = False,
) -> None:
    """List the models."""
    from deepcanon.catalogue import entries

    families = sorted({entry.family for entry in entries()})
    if family is not None and family not in families:
        from deepcanon.core import UsageError

        raise UsageError(f"there is no family {family!r}; there are {', '.join(families)}")
    chosen = [entry for entry in entries() if family in (None, entry.family)]
    out = Output(json)
    out.table(["model", "family", "what it is"], [(entry.name, entry.family, entry.summary) for entry in chosen])
    out.say("deepcanon show NAME tells all about one of them.")
    out.answer({"models": [{"name": entry.name, "family": entry.family, "summary": entry.summary} for entry in chosen]})


def data(json: Json = False) -> None:
    """List the data sets: what they are, how large, where they come from, whether they are here."""
    from deepcanon.data import describe_data

    rows = describe_data()
    out = Output(json)
    out.table(
        ["data", "gives", "shape", "train", "valid", "test", "here", "source"],
        [
            (
                row["name"], row["kind"], "x".join(map(str, row["shape"])), row["train"], row["valid"], row["test"],
                _where(row), row["source"],
            )
            for row in rows
        ],
        numbers=["train", "valid", "test"],
    )  # fmt: skip
    out.say("Image sets also come as NAME:binary and NAME:dequantized. Your own data: file.csv, or a folder of images.")
    out.say("A text also comes word by word as NAME:words, or NAME:words=5 with words that occur five times or more.")
    out.say("What has classes also comes as NAME:labels=40: with 40 labels, all other training examples unlabeled.")
    out.answer({"data": rows})


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look for runs, in its sub-folders too.")] = Path("runs"),
    json: Json = False,
) -> None:
    """List the runs in a folder and compare their results."""
    from deepcanon.cli.runs import compare
    from deepcanon.core import UsageError

    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; 'deepcanon train' makes runs")
    rows = compare(folder)
    out = Output(json)
    for name, group in groupby(rows, key=lambda row: row["data"]):
        same_data = list(group)
        out.say(f"{name}: measured on test data" if name else "damaged: not readable")
        measures = list(dict.fromkeys(measure for row in same_data for measure in row["test"]))
        fixed = ["run", "model", "status", "steps", "seconds"]
        out.table(
            [*fixed, *measures],
            [[*(row[column] for column in fixed), *map(row["test"].get, measures)] for row in same_data],
            numbers=["steps", "seconds", *measures],
        )
    if not rows:
        out.say(f"There are no runs in {folder}; 'deepcanon train' makes some.")
    out.answer({"runs": rows})


def _where(row: Mapping[str, Any]) -> str:
    if row["here"]:
        return "yes"
    return "to be downloaded" if row["downloadable"] else f"not in $DEEPCANON_DATA/{row['folder']}"
