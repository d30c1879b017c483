"""Dates as people write them and in ISO 8601: pairs of sequences whose alignment is known."""

from __future__ import annotations

from datetime import date, timedelta

from deepcanon.core import SequencePairs
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random
from deepcanon.data.text.text_pairs import character_tokenizer, sequence_pairs

FORMS = (
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{weekday}, {day} {month} {year}",
    "{short} {day}, {year}",
    "{day}.{number}.{year}",
    "{year}, {month} {day}",
    "the {day}{ending} of {month} {year}",
)
"""How dates are written; none can be read in two ways."""

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december")  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)

SOURCE = character_tokenizer(" ,.0123456789abcdefghijklmnopqrstuvwxyz", "padding")
TARGET = character_tokenizer("-0123456789", "padding", "begin", "end")
SIZE = (28, 12)
"""The number of positions of the longest date as people write it, and of every target with begin and end tokens."""


def written(day: date, form: str) -> str:
    """A date as people write it.

    >>> written(date(2001, 2, 3), FORMS[2]), written(date(2001, 2, 3), FORMS[6])
    ('saturday, 3 february 2001', 'the 3rd of february 2001')
    """
    month = MONTHS[day.month - 1]
    ending = "th" if 10 < day.day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return form.format(
        day=day.day, month=month, short=month[:3], number=day.month, year=day.year, ending=ending,
        weekday=WEEKDAYS[day.weekday()],
    )  # fmt: skip


def pairs(count: int, seed: int) -> SequencePairs:
    """Random dates, each in a random form, with the same date in ISO 8601."""
    random = fixed_random(seed)
    days = random.randint((LAST - FIRST).days + 1, size=count)
    forms = random.randint(len(FORMS), size=count)
    texts = []
    for number, form in zip(days.tolist(), forms.tolist(), strict=True):
        day = FIRST + timedelta(number)
        texts.append((written(day, FORMS[form]), day.isoformat()))
    return sequence_pairs(texts, SOURCE, TARGET, SIZE)


def load(entry: Entry) -> Dataset[SequencePairs]:
    """The splits, each with a seed of its own: 0 for training, 1 for validation, 2 for test."""
    train, valid, test = (pairs(count, seed) for seed, count in enumerate(entry.counts))
    return entry.dataset(train, valid, test)


DATES = Entry(
    name="dates",
    kind="pairs",
    shape=(SIZE[0],),
    sizes={
        "vocab": len(SOURCE.vocabulary),
        "target_vocab": len(TARGET.vocabulary),
        "begin_token": TARGET.special.sizes["begin_token"],
        "end_token": TARGET.special.sizes["end_token"],
    },
    counts=(10000, 1000, 1000),
    source="drawn here: dates from 1900 to 2099 in seven forms, and in ISO 8601",
    load=load,
    vocabulary=SOURCE.vocabulary,
    target_vocabulary=TARGET.vocabulary,
    preprocessing={"tokenizer": SOURCE.to_json(), "target_tokenizer": TARGET.to_json()},
)
