"""The command ``list``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deepcanon.cli._parse import Json
from deepcanon.cli._print import Output
from deepcanon.core.errors import UsageError

if TYPE_CHECKING:
    from deepcanon.catalogue import Entry


def list_models(
    family: Annotated[str | None, typer.Option(help="Only the models of this family.")] = None,
    json: Json = False,
) -> None:
    """List the models."""
    from deepcanon.catalogue import entries

    families = sorted({entry.family for entry in entries()})
    if family is not None and family not in families:
        raise UsageError(f"there is no family {family!r}; there are {', '.join(families)}")
    chosen = [entry for entry in entries() if family in (None, entry.family)]
    out = Output(json)
    out.table(
        ["model", "family", "what it is"],
        [(entry.name, entry.family, _in_words(entry)) for entry in chosen],
    )
    out.say("deepcanon show NAME describes one of them in full.")
    out.result(
        {
            "models": [
                {
                    "name": entry.name,
                    "family": entry.family,
                    "title": entry.title,
                    "also_known_as": entry.also_known_as,
                    "summary": entry.summary,
                }
                for entry in chosen
            ]
        }
    )


def _in_words(entry: Entry) -> str:
    """The proper name, the sentence that says what it is, and the other names."""
    named = ". ".join(filter(None, (entry.title, entry.summary)))
    return f"{named}\nAlso known as: {', '.join(entry.also_known_as)}." if entry.also_known_as else named
