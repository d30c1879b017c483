"""The rule that decides what each column of a table is: a number, a category, a date, or nothing to learn from.

1. What the user says of a column holds: ``column``, ``without``, and ``group``, whose column is left out.
2. Where every value is a number, it is a number; but whole numbers that all differ are an id and left out, if the
   column is called as ids are or counts the rows one by one, and whole numbers under the name of an id or a code that
   come again are categories.
3. Where at least nine in ten of the different values are dates in one form, it is a date; and where at least nine in
   ten are numbers, or all but a single cell in a hundred rows or more, a number, unless it is called as a code is. What
   is none is a mistake, which is named with its line.
4. Else, more than twenty different values, which are more than half of the rows, name rows rather than describe them:
   an id, or a free text. They are left out. Numbers written for people to read (``2,800``, ``31%``, ``39,5``, ``$5``)
   are not guessed: they are left out or categories by the same counts, which is said with the way to write them.
5. Anything else is a category. ``yes`` and ``no``, ``true`` and ``false`` are two categories.

A column that counts the rows is a number where nothing else is left to learn from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np

from deepcanon.core import DataError, UsageError
from deepcanon.core.reading import names_in
from deepcanon.data.tables import date_texts
from deepcanon.data.tables.csv_cells import Cells, number
from deepcanon.data.tables.csv_file import CsvFile

MOST_CATEGORIES = 20
"""A column may have more categories than these only if every one fills two rows on average."""

ID_NAMES = frozenset({"id", "ids", "uid", "uuid", "guid", "index", "idx", "no", "nr", "key", "row", "rownum", "rowid"})
"""The last word in the name of a column of ids."""

CODE_NAMES = frozenset({"id", "uid", "code", "zip", "zipcode", "postcode", "plz"})
"""The last word in the name of a column whose whole numbers are names of something."""

FREE_TEXT = 4
"""Texts with so many words on average are free ones."""

LONE = 100
"""In so many rows and more, the only text among numbers is a mistake rather than a category."""

CURRENCY = r"(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY)"

READABLE: Mapping[str, re.Pattern[str]] = {
    "thousands separators": re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?"),
    "decimal commas": re.compile(r"[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+"),
    "percent signs": re.compile(r"[-+]?\d[\d.,]*\s?%"),
    "a currency": re.compile(rf"[-+]?{CURRENCY}\s?[-+]?\d[\d.,]*|[-+]?\d[\d.,]*\s?{CURRENCY}"),
}
"""Numbers as they are written for people to read, which a table does not mean as numbers."""

Chosen = Literal["number", "category", "date", "drop"]


@dataclass(frozen=True)
class Choice:
    """The kind that a column is taken for; ``why``, where that is not plain; ``names_rows``, if it is an id."""

    kind: Chosen
    why: str = ""
    names_rows: bool = False


def choose(file: CsvFile, target: str | None, reading: Mapping[str, Any]) -> dict[str, Choice]:
    """What each column but the target is, in the order of the file."""
    asked = asked_kinds(file, reading)
    group = reading.get("group")
    chosen: dict[str, Choice] = {}
    for name, cells in file.columns.items():
        if name == target:
            continue
        if name == group:
            chosen[name] = Choice("drop", "it says which rows belong together", names_rows=True)
        elif name in asked:
            chosen[name] = Choice(asked[name], "as you said", asked[name] == "drop" and _all_differ(cells))
        else:
            chosen[name] = _choice(file, name, cells)
    return _leaving_one(chosen)


def asked_kinds(file: CsvFile, reading: Mapping[str, Any]) -> dict[str, Chosen]:
    """What the user says that columns are."""
    kinds = parse_kinds(reading.get("column") or ())
    kinds |= dict.fromkeys(names_in(reading.get("drop") or ()), "drop")
    for name in (*kinds, *(each for each in (reading.get("group"), reading.get("split_by")) if each)):
        file.column(name)
    return kinds


def parse_kinds(said: str | Sequence[str] | Mapping[str, str]) -> dict[str, Chosen]:
    """The kinds of columns, by name.

    >>> parse_kinds({"age": "number"}), parse_kinds("zip=category,id=drop")
    ({'age': 'number'}, {'zip': 'category', 'id': 'drop'})
    """
    if isinstance(said, Mapping):
        pairs = list(said.items())
    else:
        words = said.split(",") if isinstance(said, str) else [word for each in said for word in each.split(",")]
        pairs = [(name.strip(), kind.strip()) for name, _, kind in (word.rpartition("=") for word in words)]
    for name, kind in pairs:
        if not name or kind not in get_args(Chosen):
            given = f"{name}={kind}" if name else kind
            raise UsageError(f"a column is given as NAME={'|'.join(get_args(Chosen))}; got {given!r}")
    return cast(dict[str, Chosen], dict(pairs))


def _choice(file: CsvFile, name: str, cells: Cells) -> Choice:
    if cells.numeric:
        return _numeric(name, cells)
    values = [text for text in cells.coded[0] if text]
    if not values:
        return Choice("drop", "it has no value")
    forms = date_texts.form_of(values)
    if len(forms) > 1:
        return Choice("drop", "its dates do not tell the day from the month; write them as 2024-01-31")
    if forms:
        return _without_strays(file, name, values, forms[0])
    if _last_word(name) not in CODE_NAMES:
        refuse_strays(file, name, values)
    readable = readable_numbers(values)
    if readable:
        many = len(values) > MOST_CATEGORIES and 2 * len(values) > len(file)
        return Choice("drop" if many else "category", readable)
    if len(values) > MOST_CATEGORIES and 2 * len(values) > len(file):
        if np.mean([text.count(" ") for text in values]) >= FREE_TEXT - 1:
            return Choice("drop", "free text")
        all_differ = len(values) == len(file)
        why = "all values differ" if all_differ else f"{len(values):,} different values in {len(file):,} rows"
        return Choice("drop", why, names_rows=True)
    return Choice("category")


def refuse_strays(file: CsvFile, name: str, values: Sequence[str]) -> None:
    """Raise an error with its line where a text stands in a column of numbers, as its different ``values`` show."""
    odd = [text for text in values if number(text) is None]
    texts, codes = file.coded(name)
    lone = len(odd) == 1 < len(values) and len(file) >= LONE and int((codes == texts.index(odd[0])).sum()) == 1
    if odd and (lone or len(values) - len(odd) >= date_texts.SHARE * len(values)):
        raise _stray(file, name, odd[0], "numbers")


def readable_numbers(values: Sequence[str]) -> str:
    """What is said of texts nine in ten of which are numbers as people read them; empty if they are not.

    >>> readable_numbers(["1,013", "950", "12,800"])
    "its values look like numbers written with thousands separators ('1,013'); write them as 1013"
    >>> readable_numbers(["31%", "7.5 %"]), readable_numbers(["red", "1,013"])
    ("its values look like numbers written with percent signs ('31%'); write them as 31", '')
    """
    like = {what: [text for text in values if pattern.fullmatch(text)] for what, pattern in READABLE.items()}
    numbers = {text for text in values if number(text) is not None}
    read = numbers.union(*like.values())
    if read == numbers or len(read) < date_texts.SHARE * len(values):
        return ""
    what, found = max(like.items(), key=lambda each: len(each[1]))  # the first of those that fit alike
    return f"its values look like numbers written with {what} ({found[0]!r}); write them as {_bare(found[0])}"


def _bare(text: str) -> str:
    """The number in a text without what is there for people to read.

    >>> _bare("$1,013.50"), _bare("1.013,5 €"), _bare("39,5"), _bare("-31 %")
    ('1013.50', '1013.5', '39.5', '-31')
    """
    digits = re.sub(r"[^\d.,+-]", "", text)
    if READABLE["thousands separators"].fullmatch(digits):
        return digits.replace(",", "")
    return digits.replace(".", "").replace(",", ".") if "," in digits else digits


def _numeric(name: str, cells: Cells) -> Choice:
    """A number, unless it is an id or a code: that is seen by its name, or by rows that are counted one by one."""
    values, word = cells.numbers, _last_word(name)
    counts = len(values) > 2 and bool((np.diff(values[:100]) == 1).all()) and bool((np.diff(values) == 1).all())
    if not counts and word not in ID_NAMES | CODE_NAMES:
        return Choice("drop", "it has no value") if np.isnan(values).all() else Choice("number")
    if not (np.isfinite(values) & (np.floor(values) == values)).all():
        return Choice("number")
    if counts or (word in ID_NAMES and len(np.unique(values)) == len(values)):
        why = "it counts the rows" if counts else "all values differ"
        return Choice("drop", why, names_rows=True)
    return Choice("category", "a code by its name") if word in CODE_NAMES else Choice("number")


def _all_differ(cells: Cells) -> bool:
    """Whether a column may name rows: no two of its values are equal."""
    texts, codes = cells.coded
    return len(texts) == len(codes)


def _without_strays(file: CsvFile, name: str, values: Sequence[str], form: str) -> Choice:
    wrong = np.isinf(date_texts.days(values, form))
    if wrong.any():
        raise _stray(file, name, values[int(wrong.argmax())], "dates")
    return Choice("date")


def _stray(file: CsvFile, name: str, odd: str, what: str) -> DataError:
    texts, codes = file.coded(name)
    row = int(np.flatnonzero(codes == texts.index(odd))[0])
    return file.wrong(
        row, name, f"the column holds {what}, but {odd!r} is none; mend it, or say --column '{name}=category', or =drop"
    )


def _leaving_one(chosen: dict[str, Choice]) -> dict[str, Choice]:
    """The choices, but that the first column of numbers is kept where nothing would be left to learn from."""
    if any(choice.kind != "drop" for choice in chosen.values()):
        return chosen
    counting = next((name for name, choice in chosen.items() if choice.why == "it counts the rows"), None)
    return chosen if counting is None else {**chosen, counting: Choice("number")}


def _last_word(name: str) -> str:
    """The last word of a name, in lower case.

    >>> _last_word("customerID"), _last_word("Zip Code"), _last_word("paid")
    ('id', 'code', 'paid')
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return words[-1].lower() if words else name.lower()
