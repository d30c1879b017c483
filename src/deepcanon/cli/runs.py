"""The command ``runs``."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from deepcanon.cli._parse import Json
from deepcanon.cli._print import Output, without_repetition


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look for runs, in its sub-folders too.")] = Path("runs"),
    json: Json = False,
) -> None:
    """List the runs in a folder and compare their results."""
    from deepcanon.runs.listing import list_runs

    rows = list_runs(folder)
    out = Output(json)
    for row in rows:
        if row["problem"]:
            out.say(f"{row['status']}: {row['problem']}")
    for name, group in groupby((row for row in rows if not row["problem"]), key=lambda row: row["data"]):
        same_data = list(group)
        out.say(f"{name}: measured on test data")
        tests = [{name: row["test"][name] for name in without_repetition({"": row["test"]})} for row in same_data]
        metrics = list(dict.fromkeys(name for test in tests for name in test))
        fixed = ["run", "model", "status", "steps", "seconds"]
        out.table(
            [*fixed, *metrics],
            [
                [*(row[column] for column in fixed), *map(test.get, metrics)]
                for row, test in zip(same_data, tests, strict=True)
            ],
            numbers=["steps", "seconds", *metrics],
        )
    if not rows:
        out.say(f"There are no runs in {folder}; 'deepcanon train' makes some.")
    out.result({"runs": rows})
