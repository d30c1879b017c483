"""Columns of texts in files: CSV with names in its first line, tab-separated lines, Parquet; and tokenizers of them.

A cell of text is taken as it is written, ``none`` and ``?`` included, which in a table of numbers are missing values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from deepcanon.core import DataError, UsageError
from deepcanon.core.hints import did_you_mean, listed
from deepcanon.core.memory import need
from deepcanon.data.tables.csv_cells import Cells
from deepcanon.data.tables.csv_file import ARROW, CsvFile, is_csv
from deepcanon.data.tables.csv_rows import check_names, not_utf8, read_bytes, written_rows
from deepcanon.data.text.bpe import BPE
from deepcanon.data.text.special import Plain, SpecialTokens, WithSpecialTokens, padded
from deepcanon.data.text.tokenizers import Bytes, Characters
from deepcanon.data.text.words import MARK as WORDS
from deepcanon.data.text.words import Words, vocabulary, words_of
from deepcanon.data.text.words import read_form as least_of

TSV = ".tsv"
"""The suffix of files with a tab between two values, in which quotes are letters like others."""

LENGTH = 256
"""The most tokens of a text, unless the form ``length=`` says another number."""

BYTES = 16
"""The bytes that a token takes while texts are put into rows: as Python's number and as torch's."""

TOKENS = {
    "characters": "the texts of a file",
    "bytes": "the texts of a file",
    WORDS: "the texts of a file",
    f"{WORDS}=": "the texts of a file",
    "bpe=": "the texts of a file",
    "length=": "the texts of a file",
}
"""The forms that say what the tokens of texts are, and how many a text has at most."""


def holds_texts(path: Path) -> bool:
    """Whether a path is that of a file which may hold columns of texts, by its name."""
    return is_csv(path) or (path.suffix.lower() == TSV and not path.is_dir())


@dataclass(frozen=True)
class TextFile:
    """A file of columns as it is written: their ``names``, and of each row its cells and its line.

    Lines of tab-separated values have no names unless they are asked for.
    """

    path: Path
    names: tuple[str, ...]
    lines: tuple[int, ...]
    rows: tuple[Sequence[str], ...]

    def column(self, name: str) -> tuple[str, ...]:
        if name not in self.names:
            raise DataError(f"{self.path} has no column {name!r}; {did_you_mean(name, self.names)}")
        place = self.names.index(name)
        return tuple(row[place] for row in self.rows)

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""
        return f"{self.path}, {'row' if self.path.suffix.lower() in ARROW else 'line'} {self.lines[row]}"

    def only(self, name: str) -> CsvFile:
        """The column of this name as that of a table, with its numbers and missing values."""
        import pyarrow as pa

        texts = pa.chunked_array([self.column(name)], pa.large_string())
        return _Column(self.path, {name: Cells(lambda: texts)}, np.arange(len(self.rows)), place_of=self.place)


@dataclass(frozen=True)
class _Column(CsvFile):
    """One column of a file, whose lines are known."""

    place_of: Callable[[int], str] = str

    def wrong(self, row: int, name: str, problem: str) -> DataError:
        return DataError(f"{self.place_of(int(self.places[row]))}, column {name!r}: {problem}")


def read_texts(path: Path, named: bool = True) -> TextFile:
    """The cells of a file; of tab-separated lines the first has the names only if they are to be ``named``."""
    if path.suffix.lower() in ARROW:
        from deepcanon.data.tables.arrow_file import plain_table  # pyarrow is slow to import

        table = plain_table(path)
        columns = [[_written(value) for value in column.to_pylist()] for column in table.columns]
        return TextFile(
            path, tuple(table.column_names), tuple(range(1, len(table) + 1)), tuple(zip(*columns, strict=True))
        )
    if path.suffix.lower() == TSV:
        return _tab_separated(path, named)
    names, rows = written_rows(path)
    if not rows:
        raise DataError(f"{path} names its columns but has no rows")
    return TextFile(path, tuple(names), tuple(line for line, _ in rows), tuple(row for _, row in rows))


def _written(value: object) -> str:
    return "" if value is None else str(value)


def _tab_separated(path: Path, named: bool) -> TextFile:
    content = read_bytes(path)
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise not_utf8(path, content) from None
    rows = {number: line.rstrip("\r").split("\t") for number, line in enumerate(lines, 1) if line.strip()}
    if len(rows) <= named:
        raise DataError(f"{path} is empty" if not rows else f"{path} names its columns but has no rows")
    width = len(next(iter(rows.values())))
    for number, row in rows.items():
        if len(row) != width:
            raise DataError(
                f"{path}, line {number} has {len(row)} values, but the first line has {width}; no text may hold a tab"
            )
    names = tuple(rows.pop(next(iter(rows)))) if named else ()
    check_names(path, list(names))
    return TextFile(path, names, tuple(rows), tuple(rows.values()))


def learn_tokenizer(
    texts: Sequence[str], name: str, forms: Sequence[str], otherwise: str, *special: str
) -> WithSpecialTokens:
    """The tokenizer of texts that the forms ask for, or ``otherwise`` this one, with the special tokens.

    Characters and words that are rare in these texts are one unknown token, as are others that come later.

    >>> learn_tokenizer(["aab", "aac"], "FILE", ["characters"], "words", "padding").vocabulary
    ('<pad>', '<unk>', 'a')
    """
    form = next((form for form in forms if not form.startswith("length=")), otherwise)
    plain: Plain
    if form == "bytes":
        plain = Bytes()
    elif form.startswith("bpe="):
        plain = BPE.train("\n".join(texts), int(form.removeprefix("bpe=")))
    else:
        words = form.startswith(WORDS)
        least = least_of(name, form) if words else least_of(name, WORDS)
        known = vocabulary([token for text in texts for token in (words_of(text) if words else text)], least)
        if len(known) < 2:
            what = "word" if words else "character"
            raise DataError(f"no {what} occurs {least} times in the training split of {name}; write :words=1 or :bytes")
        plain = (Words if words else Characters)(known)
    return WithSpecialTokens(plain, SpecialTokens.first(*special))


def check_tokens(name: str, forms: Sequence[str]) -> None:
    """Refuse forms of tokens that are malformed, and more than one kind of tokens."""
    kinds = [form for form in forms if not form.startswith("length=")]
    if len(kinds) > 1:
        raise UsageError(f"the texts of {name} come in one kind of tokens; got {listed(kinds)}")
    for form in forms:
        if form.startswith(WORDS):
            least_of(name, form)
        elif not re.fullmatch(r"characters|bytes|bpe=\d+|length=[1-9]\d*", form):
            raise UsageError(
                f"texts have the forms characters, bytes, words, words=5, bpe=2000, length=256; got {form}"
            )
        elif form.startswith("bpe=") and int(form.removeprefix("bpe=")) <= 256:
            raise UsageError(f"a byte-pair encoding has more tokens than the 256 bytes; got {name}:{form}")


def length_of(forms: Sequence[str]) -> int:
    """The most tokens of a text.

    >>> length_of(["words", "length=32"]), length_of([])
    (32, 256)
    """
    return next((int(form.removeprefix("length=")) for form in forms if form.startswith("length=")), LENGTH)


def in_rows(texts: Sequence[str], tokenizer: WithSpecialTokens, length: int) -> tuple[Tensor, Tensor, int]:
    """Texts as rows of at most so many tokens, right-padded, their lengths, and how many were longer.

    A text without a token is the padding token. Begin and end tokens come on top, or class and separator tokens.
    """
    special = tokenizer.special
    ends = (special.begin, special.end) if special.class_ is None else (special.class_, special.separator)
    around = [[] if token is None else [token] for token in ends]
    codes = [tokenizer.encode(text) for text in texts]
    cut = sum(len(row) > length for row in codes)
    longest = max(len(row) for row in codes)
    need(BYTES * len(texts) * min(longest, length), f"{len(texts):,} texts in rows", "take :length=64, or fewer texts")
    rows = [[*around[0], *row[:length], *around[1]] or [special.padding or 0] for row in codes]
    return *padded(rows, special.padding), cut


def cut_in_words(cut: int, count: int, length: int, what: str = "texts") -> tuple[str, ...]:
    """The sentence on texts that are too long, if there are any."""
    if not cut:
        return ()
    return (f"{cut:,} of {count:,} {what} are cut to their first {length} tokens; say :length={2 * length} for more.",)
