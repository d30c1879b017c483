"""The tables of a comparison: one for each form of the data and each task, best models first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deepcanon.comparison.columns import (
    ACCURACY,
    BALANCED,
    BITS,
    CALIBRATION,
    COPIES,
    COST,
    COVERAGE,
    COVERED,
    CRPS,
    ERROR,
    F1,
    FORECAST_MAE,
    FORECAST_RMSE,
    LOG_LOSS,
    MAE,
    NATS,
    PARAMETERS,
    PR,
    PRECISION,
    R2,
    RMSE,
    ROC,
    SECONDS,
    SHARPEST,
    SPEED,
    TIGHTER,
    TWO_SAMPLE,
    Column,
    metric,
)
from deepcanon.comparison.differences import Difference, told_apart, turned
from deepcanon.comparison.measures import BaselineMeasures, Likelihood, Measured
from deepcanon.comparison.quality import Quality
from deepcanon.comparison.record import Comparison, Entry, Gain
from deepcanon.comparison.support import FORMS, Form, ranked_as
from deepcanon.core.plural import counted

Question = Literal["classes", "targets", "forecasts", "densities", "others"]


RANKED_BY: dict[Question, Column] = {"targets": RMSE, "forecasts": CRPS, "densities": SHARPEST}


@dataclass(frozen=True)
class Row:
    """One model with all its seeds."""

    label: str
    entries: tuple[Entry, ...]

    @property
    def is_baseline(self) -> bool:
        """Whether it stands next to the models that were asked for."""
        return self.entries[0]["baseline"]

    @property
    def in_catalogue(self) -> bool:
        """Whether it is a model of the catalogue, and so has runs."""
        return self.entries[0]["model"] is not None

    @property
    def measured(self) -> list[Measured]:
        return [entry["measured"] for entry in self.entries if entry["measured"] is not None]

    @property
    def errors(self) -> list[str]:
        """The error messages, each once."""
        return list(dict.fromkeys(entry["error"] for entry in self.entries if entry["error"] is not None))

    @property
    def kind(self) -> str | None:
        """The kind of its log-likelihood."""
        return None if self._likelihood is None else self._likelihood["kind"]

    @property
    def given(self) -> str | None:
        """What its log-likelihood is conditioned on, None if on nothing."""
        return None if self._likelihood is None else self._likelihood.get("given")

    @property
    def per(self) -> str:
        """What its log-likelihood is the mean over."""
        return "example" if self._likelihood is None else self._likelihood.get("per", "example")

    @property
    def likelihood(self) -> str:
        """What its log-likelihood is, in words: the kind, of how much, and given what."""
        return (
            f"{self.kind}{f' per {self.per}' if self.per != 'example' else ''}"
            f"{f', given {self.given}' if self.given else ''}"
        )

    @property
    def _likelihood(self) -> Likelihood | None:
        return next((each["likelihood"] for each in self.measured if each["likelihood"] is not None), None)

    @property
    def baseline(self) -> BaselineMeasures | None:
        """The baseline of the model: that of its first run, since all learn from the same split."""
        return next((each["baseline"] for each in self.measured), None)

    def values(self, column: Column) -> list[float]:
        """The measure of every seed; empty if the model does not have it."""
        found = [column.take(each) for each in self.measured]
        return [value for value in found if value is not None]

    def mean(self, column: Column) -> float | None:
        values = self.values(column)
        return math.fsum(values) / len(values) if values else None

    def stopped(self) -> list[str]:
        """The trainings that the budget has ended early."""
        return [
            f"seed {entry['seed']} at step {each['steps']:,} of {each['planned']:,}"
            for entry in self.entries
            if (each := entry["measured"]) is not None and each["steps"] < each["planned"]
        ]


@dataclass(frozen=True)
class Section:
    """One table: models for the same task on the same form of the data, the best first."""

    question: Question
    form: Form
    data: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    reference: Quality | None
    differences: tuple[Difference, ...] = ()
    labels: tuple[str, ...] = ()
    parts: tuple[tuple[int, tuple[Row, ...]], ...] = ()
    """The same models trained on fewer examples, by their number."""
    gains: tuple[Gain, ...] = ()

    @property
    def chooser(self) -> Column:
        """The column that ranks the models; of classes the log loss, if there are two that have one.

        A classifier without probabilities has none, and no rank among those that have: it stands after them.
        """
        if self.question in RANKED_BY:
            return RANKED_BY[self.question]
        with_loss = [row for row in self.rows if row.mean(LOG_LOSS) is not None]
        return LOG_LOSS if len(with_loss) >= min(2, len(self.rows)) else BALANCED

    @property
    def ranked(self) -> tuple[Row, ...]:
        """The rows that the chooser ranks."""
        return tuple(row for row in self.rows if row.mean(self.chooser) is not None)

    def measure_of(self, row: Row) -> Column:
        """The column by which a row that predicts is judged: the chooser, or what it has in place of it."""
        return self.chooser if row in self.ranked else BALANCED

    def marked(self, row: Row, column: Column) -> bool:
        """Whether a row is marked as the best in a column: it is sound, and no other row is as good, or not all are.

        Where the models are compared on the same examples, a row is as good if the two cannot be told apart.
        """
        mean = row.mean(column)
        others = [other for other in self.rows if other is not row and other.mean(column) is not None]
        if mean is None or column.better is None or not others or self.failings(row):
            return False
        if column.measure is not None:
            return all(self._surely_better(row, other, column) for other in others)
        values = [value for each in self.rows if (value := each.mean(column)) is not None]
        written = {column.write(value) for value in values}
        return len(written) > 1 and column.write(mean) == column.write(min(values, key=column.distance))

    def tied(self, row: Row, column: Column) -> list[Row]:
        """The rows that cannot be told apart from this one by a measure, since the interval holds 0."""
        found = ((other, self.difference(row, other, column)) for other in self.rows if other is not row)
        return [other for other, gap in found if gap is not None and not told_apart(gap)]

    def difference(self, first: Row, second: Row, column: Column) -> Difference | None:
        """The difference of two rows in a measure, if both have it and it is known."""
        if first.mean(column) is None or second.mean(column) is None:
            return None
        for found in self.differences:
            if found["measure"] == column.measure and found["form"] == self.form:
                if (found["first"], found["second"]) == (first.label, second.label):
                    return found
                if (found["first"], found["second"]) == (second.label, first.label):
                    return turned(found)
        return None

    def behind(self, row: Row) -> Difference | None:
        """The difference of a row from the first one in the measure that ranks them; None of the first itself."""
        first = self.rows[0]
        alike = row is not first and row.given == first.given
        return self.difference(row, first, self.chooser) if alike and self.question != "others" else None

    def failings(self, row: Row) -> list[str]:
        """The faults of a row that predicts, a sentence each: it misses a class, or does not beat its baseline."""
        if self.question not in ("classes", "targets"):
            return []
        return [*self._missed(row), *self.no_better(row)]

    def _missed(self, row: Row) -> list[str]:
        seeds = [each["classes"] for each in row.measured if each["classes"]]
        names = self.labels or tuple(map(str, range(len(seeds[0]) if seeds else 0)))
        return [
            f"{row.label} finds none of the {counted(seeds[0][place]['examples'], 'test example', ',')} of the "
            f"class {name!r}."
            for place, name in enumerate(names)
            if seeds and seeds[0][place]["examples"] and not any(classes[place]["found"] for classes in seeds)
        ]

    def no_better(self, row: Row) -> list[str]:
        """A sentence on a row that does not beat the baseline, which uses no input."""
        column, found = self.measure_of(row), row.baseline
        value, other = row.mean(column), None if found is None else column.of_baseline(found["test"])
        if found is None or value is None or other is None or column.distance(value) < column.distance(other):
            return []
        return [
            f"{row.label} does not beat {found['name']}: {column.title} {column.write(value)} against "
            f"{column.write(other)}."
        ]

    def _surely_better(self, row: Row, other: Row, column: Column) -> bool:
        gap = self.difference(row, other, column)
        return gap is not None and (gap["low"] > 0 if column.better == "high" else gap["high"] < 0)


def sections(comparison: Comparison) -> list[Section]:
    """The tables of a comparison; classifiers first, and one for each form of the data."""
    rows = [
        Row(label, tuple(entry for entry in comparison["runs"] if entry["label"] == label))
        for label in dict.fromkeys(entry["label"] for entry in comparison["runs"])
    ]
    forms = {row.entries[0]["form"] for row in rows}
    questions: tuple[Question, ...] = ("classes", "targets", "forecasts", "densities", "others")
    found = []
    for question in questions:
        for form in FORMS:
            alike = [row for row in rows if ranked_as(row.entries[0]["form"], forms) == form]
            members = [row for row in alike if question in _questions(row)]
            if members:
                found.append(_section(question, form, members, comparison))
    return found


def failures(comparison: Comparison) -> dict[str, list[str]]:
    """The candidates that could not be trained or measured with some seed or any, by label, and why."""
    found = {label: [reason] for label, reason in comparison["unsuitable"].items()}
    for entry in comparison["runs"]:
        if entry["error"] is not None:
            reasons = found.setdefault(entry["label"], [])
            if entry["error"] not in reasons:
                reasons.append(entry["error"])
    return found


def _questions(row: Row) -> set[Question]:
    """The tasks of a model; one that failed with every seed has none."""
    found: set[Question] = set()
    for measured in row.measured:
        if measured["predictions"] is not None:
            found.add("classes")
        if measured["targets"] is not None:
            found.add("targets")
        if measured["forecasts"] is not None:
            found.add("forecasts")
        if measured["likelihood"] is not None or measured["drawn"] is not None:
            found.add("densities")
        if not found:
            found.add("others")
    return found


def _section(question: Question, form: Form, members: Sequence[Row], comparison: Comparison) -> Section:
    columns = _columns(question, members)
    section = Section(
        question,
        form,
        next((row for row in members if row.entries[0]["form"] == form), members[0]).entries[0]["data"],
        tuple(members),
        columns,
        comparison["reference"].get(form),
        tuple(comparison["differences"]),
        tuple(comparison["data"]["labels"]),
        _parts([row.label for row in members], comparison),
        tuple(comparison["gains"]),
    )
    return replace(section, rows=tuple(sorted(members, key=lambda row: _rank(section, row))))


def _parts(labels: Sequence[str], comparison: Comparison) -> tuple[tuple[int, tuple[Row, ...]], ...]:
    """The rows of the learning curve, by the number of training examples."""
    curve = comparison["curve"]
    counts = sorted({entry["examples"] for entry in curve if entry["examples"] is not None})

    def row(label: str, count: int) -> Row:
        return Row(label, tuple(each for each in curve if (each["label"], each["examples"]) == (label, count)))

    found = ((count, tuple(row(label, count) for label in labels)) for count in counts)
    return tuple((count, tuple(each for each in rows if each.entries)) for count, rows in found)


def _columns(question: Question, members: Sequence[Row]) -> tuple[Column, ...]:
    measured = [each for row in members for each in row.measured]
    metrics = dict.fromkeys(name for each in measured for name in each["metrics"])
    cost = [COST] if any(each["cost"] is not None for each in measured) else []
    if question == "classes":
        return (LOG_LOSS, ACCURACY, *cost, BALANCED, F1, ROC, PR, CALIBRATION, SECONDS, PARAMETERS)
    if question == "targets":
        return (RMSE, MAE, *cost, R2, SECONDS, PARAMETERS)
    if question == "forecasts":
        return (CRPS, FORECAST_RMSE, FORECAST_MAE, COVERED, SECONDS, PARAMETERS)
    if question == "others":
        return (*(metric(name) for name in metrics or ["loss"]), SECONDS, PARAMETERS)
    known = (NATS, TIGHTER, ERROR, BITS, TWO_SAMPLE, PRECISION, COVERAGE, COPIES)
    used = [column for column in known if any(row.values(column) for row in members)]
    elsewhere = {"nll", "nll_error", "bits_per_dim"}  # in columns of their own
    elsewhere |= {"accuracy"} if any(each["predictions"] for each in measured) else set()
    own = [metric(name) for name in metrics if name not in elsewhere]
    speed = [SPEED] if any(row.values(SPEED) for row in members) else []
    return (*used, *own, *speed, SECONDS, PARAMETERS)


def _rank(section: Section, row: Row) -> tuple[float, ...]:
    """The rank of a row: by log loss or balanced accuracy; by error; by log-likelihood, then the two-sample test.

    Log-likelihoods given something come after those given nothing, in an order of their own.
    """
    first, second = {
        "classes": (section.chooser, ACCURACY),
        "targets": (section.chooser, MAE),
        "forecasts": (section.chooser, FORECAST_RMSE),
        "densities": (SHARPEST, TWO_SAMPLE),
        "others": (section.columns[0], SECONDS),
    }[section.question]
    if section.question == "classes" and row not in section.ranked:
        second = BALANCED
    means = ((column, row.mean(column)) for column in (first, second))
    apart = float(section.question == "densities" and row.given is not None)
    return (apart, *(math.inf if mean is None else column.distance(mean) for column, mean in means))
