"""The command ``data``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from deepcanon.cli._parse import Json
from deepcanon.cli._print import Output


def data(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One data set; without it all are listed.")
    ] = None,
    json: Json = False,
) -> None:
    """List the data sets: what they are, how large, where they come from, whether they are here, in which forms."""
    from deepcanon.data import describe_data

    rows = describe_data(name)
    out = Output(json)
    if name is not None:
        _show(out, rows[0])
        return
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
    _show_forms(out)
    out.say("Your own data: file.csv, text.txt, or a folder of images or texts.")
    out.say("deepcanon data NAME shows one set with its forms.")
    out.result({"data": rows})


def _show_forms(out: Output) -> None:
    """All forms, and of which data they are."""
    from deepcanon.data.transforms.form_list import FORM_LIST

    out.say("Forms, chosen by a suffix on the name, one or several, as digits:binary:labels=40:")
    out.table(["form", "of", "what it gives"], [(f"NAME:{form.suffix}", form.of, form.gives) for form in FORM_LIST])


def _show(out: Output, row: Mapping[str, Any]) -> None:
    """One data set in full, with the forms that it has."""
    sizes = ", ".join(f"{size} {value}" for size, value in row["sizes"].items())
    counts = ", ".join(f"{row[part]:,} for {part}" for part in ("train", "valid", "test") if row[part])
    out.say(f"{row['name']}: {row['source']}")
    for label, text in (("gives", row["kind"]), ("sizes", sizes), ("examples", counts), ("here", _where(row))):
        out.say(f"{label:<10}{text}", hanging=10)
    if row["forms"]:
        forms = [(f"{row['name']}:{suffix}", gives) for suffix, gives in row["forms"].items()]
        out.table(["form", "what it gives"], forms)
    out.result(row)


def _where(row: Mapping[str, Any]) -> str:
    if row["here"]:
        return "yes"
    return "to be downloaded" if row["downloadable"] else f"not in $DEEPCANON_DATA/{row['folder']}"
