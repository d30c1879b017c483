"""Output of the commands: tables and sentences for people, one JSON object for programs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deepcanon.cli._table import lay_out, paragraph
from deepcanon.core.files import as_json

PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
"""What Unicode shows in place of control characters, which may do anything to a terminal."""


class Output:
    """The output of one command; under ``--json`` only :meth:`result` prints."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.first = os.environ.get("RANK", "0") == "0"  # of several processes under torchrun only one prints

    def say(self, text: str = "", hanging: int = 0) -> None:
        """A line for people, broken between words where the terminal ends; what follows hangs so far to the right."""
        self.verbatim(paragraph(text, terminal_width(), hanging))

    def verbatim(self, text: str) -> None:
        """A text for people, printed line by line as it is."""
        if self.first and not self.as_json:
            sys.stdout.write(text.translate(PICTURES) + "\n")
            sys.stdout.flush()  # someone may wait for it at the end of a pipe

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[str] = ()) -> None:
        """A table for people; the columns named in ``numbers`` stand to the right."""
        if self.first and not self.as_json:
            cells = [[show_number(cell) for cell in row] for row in rows]
            self.verbatim("\n".join(["", *lay_out(columns, cells, numbers, terminal_width()), ""]))

    def result(self, content: Mapping[str, Any]) -> None:
        """The one JSON object for programs."""
        if self.as_json and self.first:
            sys.stdout.write(json.dumps(as_json(content), allow_nan=False) + "\n")


def terminal_width() -> int | None:
    """The width of the terminal, or what ``COLUMNS`` says; None in a pipe, whose reader may have any."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, 20)
    return None


def without_repetition(columns: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The names of all numbers in these columns, but for a loss that is only one term, whose number stands there too.

    >>> without_repetition({"train": {"nll": 0.5, "loss": 0.5}, "test": {"nll": 0.7, "loss": 0.7, "accuracy": 0.9}})
    ['nll', 'accuracy']
    """
    names = list(dict.fromkeys(name for numbers in columns.values() for name in numbers))
    losses = [numbers for numbers in columns.values() if "loss" in numbers]
    twin = any(all(numbers.get(name) == numbers["loss"] for numbers in losses) for name in names if name != "loss")
    return [name for name in names if name != "loss" or not twin]


def show_number(value: Any) -> str:
    """A cell of a table: numbers with four digits, nothing for None.

    >>> show_number(0.123456), show_number(1797), show_number(None)
    ('0.1235', '1797', '')
    """
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
