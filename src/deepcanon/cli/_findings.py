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

    printer = Output(json)
    printer.table([kind, "what it measures"], [(entry.name, entry.summary) for entry in questions(kind)])
    printer.say("deepcanon show NAME describes one of them in full.")
    plural = "studies" if kind == "study" else "insights"
    printer.result({plural: [{"name": entry.name, "summary": entry.summary} for entry in questions(kind)]})


def folder_for(out: Path | None, base: Path, name: str, overwrite: bool) -> Path:
    """The folder for the results, in which nothing of that name is there unless it may be replaced."""
    from deepcanon.core.files import free, writable

    folder = out or (base if overwrite else free(base))
    for suffix in (".png", ".json"):
        writable(folder / f"{name}{suffix}", overwrite, suffix)
    return folder


def print_finding(finding: Finding, kind: Question, name: str, folder: Path, overwrite: bool, json: bool) -> None:
    """Write the figure and the numbers, and print what they mean."""
    numbers = dict(finding.numbers)
    picture, table = finding.save(folder, name, overwrite=overwrite)
    printer = Output(json)
    for sentence in finding.says:
        printer.say(sentence)
    printer.say(f"The figure is {picture}, its numbers are in {table}.")
    printer.result({kind: name, "says": finding.says, "numbers": numbers, "picture": picture, "table": table})
