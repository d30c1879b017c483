"""Findings of insights and studies on the command line: listed, written, printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepcanon.cli._print import Output

if TYPE_CHECKING:
    from deepcanon.catalogue import Question
    from deepcanon.core import Finding

Out = Annotated[Path | None, typer.Option(help="The folder for the figure and the numbers.", metavar="DIR")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the figure and the numbers if they are there.")]


def list_questions(kind: Question, json: bool) -> None:
    """List all insights or all studies."""
    from deepcanon.catalogue import questions

    voice = Output(json)
    voice.table([kind, "what it measures"], [(entry.name, entry.summary) for entry in questions(kind)])
    voice.say("deepcanon show NAME tells all about one of them.")
    plural = "studies" if kind == "study" else "insights"
    voice.answer({plural: [{"name": entry.name, "summary": entry.summary} for entry in questions(kind)]})


def folder_for(out: Path | None, base: Path, name: str, overwrite: bool) -> Path:
    """The folder for the results, in which nothing of that name is there unless it may be replaced."""
    from deepcanon.core.files import free, writable

    folder = out or (base if overwrite else free(base))
    for suffix in (".png", ".json"):
        writable(folder / f"{name}{suffix}", overwrite, suffix)
    return folder


def print_finding(finding: Finding, kind: Question, name: str, folder: Path, json: bool) -> None:
    """Write the figure and the numbers, and print what they mean."""
    numbers = dict(finding.numbers)
    picture, table = finding.save(folder, name)
    voice = Output(json)
    for sentence in finding.says:
        voice.say(sentence)
    voice.say(f"The figure is {picture}, its numbers are in {table}.")
    voice.answer({kind: name, "says": finding.says, "numbers": numbers, "picture": picture, "table": table})
