"""Kinds of files and folders that are data: how each is recognized and read, and how new rows are treated alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepcanon.core import AnyBatch
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset, Kind


@dataclass(frozen=True)
class FileKind:
    """One kind of file or folder.

    Arguments:
        kind: What it gives.
        recognizes: Whether a path is one, by its name, the forms that follow it and the reading options.
        load: Reads it: its path, the forms of its own, the reading options, and the preprocessing of an earlier load.
        apply: Reads all of it as new rows, by a saved preprocessing; unless rows are to be labeled, labels are ignored.
        takes: The reading options that it has.
        forms: The forms of its own, each with the files that have it, in words. One that ends in ``=`` has a value.
        names: What new rows are called, the first columns of their predictions, where they are called anything.
    """

    kind: Kind
    recognizes: Callable[[Path, tuple[str, ...], Reading], bool]
    load: Callable[[Path, tuple[str, ...], Reading, Mapping[str, Any] | None], Dataset[Any]]
    apply: Callable[[Path, Mapping[str, Any], bool], AnyBatch]
    takes: frozenset[str] = frozenset()
    forms: Mapping[str, str] = field(default_factory=dict)
    names: Callable[[Path, Mapping[str, Any]], Mapping[str, list[Any]]] | None = None

    def of_its_own(self, form: str) -> str | None:
        """The files that have a form, if it is one of this kind's own."""
        marks = (mark for mark in self.forms if form == mark or (mark.endswith("=") and form.startswith(mark)))
        return next((self.forms[mark] for mark in marks), None)
