"""The command ``data``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from deepcanon.cli._parse import Json, given_options, with_options
from deepcanon.cli._print import Output
from deepcanon.core.errors import UsageError
from deepcanon.core.reading import Reading


@with_options(Reading)
def data(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One data set, or a CSV file of yours; without it all are listed."),
    ] = None,
    json: Json = False,
    **reading: Any,
) -> None:
    """List the data sets, or show one of them, or the profile of a CSV file: what each column holds and becomes."""
    from deepcanon.data import describe_data, kind_of_path

    out, given = Output(json), given_options(reading)
    if name is not None and _is_path(name):
        if kind_of_path(name, reading=given) == "table":
            _show_profile(out, name, given)
        else:
            _show_own(out, name, given)
        return
    if given:
        raise UsageError(f"--{next(iter(given)).replace('_', '-')} says how a file is read; name the file")
    rows = describe_data(name)
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
    out.say(
        "Your own data: tables, texts, series, graphs, ratings, arrays and images; docs/data.md has a command for each."
    )
    out.say("deepcanon data NAME shows one set with its forms, deepcanon data FILE.csv what becomes of each column.")
    out.result({"data": rows})


def _is_path(name: str) -> bool:
    """Whether this names a file or folder of the user's, with its forms after it."""
    from deepcanon.data.load import is_known

    return not is_known(name)


def _show_profile(out: Output, name: str, reading: Mapping[str, Any]) -> None:
    """A table of the columns of a table."""
    from deepcanon.data.load import profile_of

    found = profile_of(name, **reading)
    for sentence in found.says:
        out.say(sentence)
    columns = [(column.name, column.picture, column.says) for column in found.columns]
    out.table(["column", "picture", "what it holds and becomes"], columns)
    out.say("--column NAME=number, =category, =date or =drop says otherwise.")
    out.result(
        {"file": found.path, "rows": found.rows, "columns": list(map(asdict, found.columns)), "says": found.says}
    )


def _show_own(out: Output, name: str, reading: Mapping[str, Any]) -> None:
    """What a file or folder becomes, where it is not a table."""
    from deepcanon.data import load_data

    loaded = load_data(name, **reading)
    out.say(repr(loaded))
    for sentence in loaded.remarks:
        out.say(sentence)
    facts = {"name": loaded.name, "kind": loaded.kind, "shape": list(loaded.shape), "sizes": dict(loaded.sizes)}
    out.result({**facts, "says": loaded.remarks})


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
