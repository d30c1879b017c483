"""Output of the commands: tables and sentences for people, one JSON object for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deepcanon.core.files import as_json


class Output:
    """The output of one command; under ``--json`` only :meth:`result` prints."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.first = os.environ.get("RANK", "0") == "0"  # of several processes under torchrun only one prints

    def say(self, text: str = "") -> None:
        """A line for people, printed as it is."""
        if self.first and not self.as_json:
            self._console().print(text, markup=False, highlight=False, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[str] = ()) -> None:
        """A table for people; the columns named in ``numbers`` stand to the right."""
        if self.as_json or not self.first:
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(show_number(cell)) for cell in row))  # Text: brackets of the user are not markup
        self._console().print(table)

    def result(self, content: Mapping[str, Any]) -> None:
        """The one JSON object for programs."""
        if self.as_json and self.first:
            sys.stdout.write(json.dumps(as_json(content), allow_nan=False) + "\n")

    def _console(self) -> Any:
        from rich.console import Console

        # in a pipe rich would fold every table to 80 columns, though nobody says the reader has only those
        return Console(emoji=False, width=None if sys.stdout.isatty() else 260)


def show_number(value: Any) -> str:
    """A cell of a table: numbers with four digits, nothing for None.

    >>> show_number(0.123456), show_number(1797), show_number(None)
    ('0.1235', '1797', '')
    """
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
