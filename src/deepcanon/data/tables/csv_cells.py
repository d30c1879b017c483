"""The cells of one column of a table, as texts and as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The texts that stand for a missing value, in upper or lower case."""

MISSING_AS_WRITTEN = tuple(
    sorted({"".join(letters) for text in MISSING for letters in product(*zip(text, text.upper(), strict=True))})
)
"""The same in every mixture of upper and lower case."""

PEEK = 100
"""The rows by which a column is taken for one of numbers; another is read once more."""

Texts = Any
"""A chunked array of Arrow's that holds the cells of a column as they are written; a null is missing, too."""


class Cells:
    """The cells of one column, without the blanks around them; a missing value is the empty text.

    Arguments:
        written: Gives the cells as they are written.
        numbers: The numbers in them, if they are known already.
        meaning: What a text stands for, where different texts stand for the same.
    """

    def __init__(
        self,
        written: Callable[[], Texts],
        numbers: NDArray[np.float64] | None = None,
        meaning: Callable[[str], str] = str,
    ) -> None:
        self._written = written
        self._numbers = numbers
        self._meaning = meaning

    @property
    def known(self) -> NDArray[np.float64] | None:
        """The numbers, if they were read as such."""
        return self._numbers

    def written(self) -> Texts:
        """The cells as they are written, a missing one perhaps as null."""
        return self._texts

    def meaning(self, meaning: Callable[[str], str]) -> Cells:
        """The same cells, with other texts in place of theirs; a number must stay what it is."""
        return Cells(self._written, self._numbers, meaning)

    def text(self, place: int) -> str:
        return self._text(self._texts[place].as_py())

    @cached_property
    def coded(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The different texts, in the order in which they occur, and the index of each cell's among them."""
        chunks = self._texts.dictionary_encode(null_encoding="encode").chunks
        index: dict[str, int] = {}
        same = [index.setdefault(self._text(text), len(index)) for text in chunks[0].dictionary.to_pylist()]
        return tuple(index), np.array(same)[np.concatenate([chunk.indices.to_numpy() for chunk in chunks])]

    @cached_property
    def numeric(self) -> bool:
        """Whether every cell that is not missing holds a number."""
        return self._plain is not None or all(number(text) is not None for text in self.coded[0] if text)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The number in each cell, NaN where it is missing, infinite where there is none."""
        if self._plain is not None:
            return self._plain
        texts, codes = self.coded
        return np.array([_finite(text) if text else math.nan for text in texts])[codes]

    @cached_property
    def all_numbers(self) -> bool:
        """Whether every cell holds a number or is missing, as far as ``numbers`` say."""
        return not np.isinf(self.numbers).any()

    @property
    def missing(self) -> float:
        """The share of cells without a value."""
        if self.numeric:
            return float(np.isnan(self.numbers).mean())
        texts, codes = self.coded
        return float((codes == texts.index("")).mean()) if "" in texts else 0.0

    @cached_property
    def _texts(self) -> Texts:
        return self._written()

    @cached_property
    def _plain(self) -> NDArray[np.float64] | None:
        """The numbers as Arrow reads them, or None if a cell holds anything but a plain number."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._numbers is not None:
            return self._numbers
        if not look_numeric(self._texts.slice(0, PEEK).to_pylist()):
            return None
        bare = pc.utf8_trim(self._texts, " \t\r\n\v\f")
        there = pc.if_else(pc.is_in(pc.ascii_lower(bare), pa.array(sorted(MISSING), bare.type)), None, bare)
        try:
            return as_numbers(pc.cast(there, pa.float64()))
        except pa.ArrowInvalid:
            return None

    def _text(self, cell: str | None) -> str:
        return self._meaning(_plain_text(cell))


def number(text: str) -> float | None:
    """The number that a text writes, or None.

    >>> number("2.5e1"), number("1_000"), number("red")
    (25.0, None, None)
    """
    if "_" in text:  # Python reads 1_000 as a number, a CSV does not mean it so
        return None
    try:
        return float(text)
    except ValueError:
        return None


def look_numeric(cells: Iterable[str | None]) -> bool:
    """Whether these cells hold numbers, where they are not missing."""
    texts = (_plain_text(cell) for cell in cells)
    return all(not text or number(text) is not None for text in texts)


def as_numbers(values: Any) -> NDArray[np.float64] | None:
    """The numbers that Arrow has read, NaN where a value is missing; None if it took a text for NaN."""
    numbers: NDArray[np.float64] = np.require(values.to_numpy(), requirements="W")
    with np.errstate(over="ignore", invalid="ignore"):
        finite = math.isfinite(numbers.sum())  # far sooner seen than of each number
    if finite and not values.null_count:
        return numbers
    return numbers if np.isnan(numbers).sum() == values.null_count else None


def _finite(text: str) -> float:
    """The number that a text writes, or infinity."""
    value = number(text)
    return math.inf if value is None or math.isnan(value) else value


def _plain_text(cell: str | None) -> str:
    text = "" if cell is None else cell.strip()
    return "" if text.lower() in MISSING else text
