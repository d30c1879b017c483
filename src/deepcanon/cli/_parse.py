"""Parsing of the command line: options that several commands share, and all remaining words as options by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from deepcanon.core.errors import UsageError
from deepcanon.core.settings import LARGEST
from deepcanon.runs.folder_parts import info_of


def _run(folder: Path) -> Path:
    """The folder, if a run is there: seen before a command imports torch."""
    info_of(folder)
    return folder


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, as the last line, in place of tables.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="How many threads torch may use.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.", callback=_run)]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST, help="The seed of everything that is random.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")]
Target = Annotated[str | None, typer.Option(help="The column of a CSV file that is to be predicted.")]

Own = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="FILE.py:NAME",
        help="A class of the run that is not in the catalogue (repeatable): its code runs only if you name it.",
    ),
]


def read_options(words: Iterable[str]) -> dict[str, list[str]]:
    """The words after each option.

    >>> read_options(["--hidden", "64", "64", "--model.no-bias", "--rate=-0.5"])
    {'hidden': ['64', '64'], 'model.no_bias': [], 'rate': ['-0.5']}
    """
    options: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in words:
        if word.startswith("-") and not _is_number(word):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("-", "_")
            if name in options:
                raise UsageError(f"--{name.replace('_', '-')} is given twice")
            values = options[name] = [value] if equals else []
        elif values is None:
            raise UsageError(f"what is {word!r}? The name of the model comes first, everything else follows an option")
        else:
            values.append(word)
    return options


def own_options(context: typer.Context) -> list[str]:
    """The options of the command itself, for advice on a misspelling."""
    return [str(each.name) for each in context.command.params]


def check_name_first(command: str, name: str, what: str = "name") -> None:
    """Refuse an option where the name belongs."""
    if name.startswith("-"):
        raise UsageError(f"the {what} comes first: deepcanon {command} NAME {name} ...")


def use_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _is_number(word: str) -> bool:
    try:
        float(word.partition(",")[0])
    except ValueError:
        return False
    return True
