"""The runs of a comparison as tables: one for each form of the data and each kind of question, best models first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from deepcanon.comparison.job import Comparison, Entry
from deepcanon.comparison.measures import IMPORTANCE_SAMPLES, Measured
from deepcanon.comparison.quality import Quality
from deepcanon.comparison.support import FORMS, Form

KINDS = {
    "exact": "exact",
    "lower bound": "lower bound",
    "estimate": "estimate",
    "unnormalized": "unnormalized",
}
"""What a log-likelihood is, by the ``likelihood_kind`` of its model."""

DASH = "\N{EN DASH}"
"""What stands where a model has no such number."""

Question = Literal["classes", "densities", "others"]


@dataclass(frozen=True)
class Column:
    """One measure: how it is taken from a run, how it is written, and which way, or which value, is better.

    Where nothing is said to be better, as of log-likelihoods of several kinds, no value is marked as the best.
    """

    title: str
    take: Callable[[Measured], float | None]
    form: str | Callable[[float], str] = "{:.3f}"
    better: Literal["high", "low"] | float | None = None
    meaning: str = ""

    def write(self, value: float | None) -> str:
        if value is None:
            return DASH
        text = self.form.format(value) if isinstance(self.form, str) else self.form(value)
        return text.replace("-", "\N{MINUS SIGN}")

    def distance(self, value: float) -> float:
        """How far a value is from the best, up to a constant."""
        if isinstance(self.better, float):
            return abs(value - self.better)
        return -value if self.better == "high" else value


@dataclass(frozen=True)
class Row:
    """One model with all its seeds."""

    label: str
    entries: tuple[Entry, ...]

    @property
    def measured(self) -> list[Measured]:
        return [entry["measured"] for entry in self.entries if entry["measured"] is not None]

    @property
    def errors(self) -> list[str]:
        """What went wrong, each sentence once."""
        return list(dict.fromkeys(entry["error"] for entry in self.entries if entry["error"] is not None))

    @property
    def kind(self) -> str | None:
        """What its log-likelihood is, in words."""
        found = next((each["likelihood"] for each in self.measured if each["likelihood"] is not None), None)
        return None if found is None else KINDS[found["kind"]]

    def values(self, column: Column) -> list[float]:
        """The measure of every seed; none if the model lacks what it takes."""
        found = [column.take(each) for each in self.measured]
        return [value for value in found if value is not None]

    def mean(self, column: Column) -> float | None:
        values = self.values(column)
        return math.fsum(values) / len(values) if values else None

    def stopped(self) -> list[str]:
        """Which trainings the budget has ended early."""
        return [
            f"seed {entry['seed']} at step {each['steps']:,} of {each['planned']:,}"
            for entry in self.entries
            if (each := entry["measured"]) is not None and each["steps"] < each["planned"]
        ]


@dataclass(frozen=True)
class Section:
    """One table: models that answer the same question about the same form of the data, the best first."""

    question: Question
    form: Form
    data: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    reference: Quality | None

    def best(self, column: Column) -> float | None:
        """The best mean of a column; none where nothing is better or there is nothing to compare."""
        means = [value for row in self.rows if (value := row.mean(column)) is not None]
        if column.better is None or len(means) < 2:
            return None
        return min(means, key=column.distance)


def _sharpest(measured: Measured) -> float | None:
    """The log-likelihood models are ordered by: the tighter bound where there is one, nothing that is not normalized.

    Of a plain bound with one draw for each example chance may make more; the larger of the two would count on it.
    """
    found = measured["likelihood"]
    if found is None or found["kind"] == "unnormalized":
        return None
    return found["nats"] if found["tighter"] is None else found["tighter"]


def _of_samples(name: Literal["two_sample", "precision", "coverage", "copies"]) -> Callable[[Measured], float | None]:
    def take(measured: Measured) -> float | None:
        drawn = measured["drawn"]
        return None if drawn is None or drawn["quality"] is None else drawn["quality"][name]

    return take


def _of_likelihood(name: Literal["nats", "tighter", "bits"]) -> Callable[[Measured], float | None]:
    def take(measured: Measured) -> float | None:
        found = measured["likelihood"]
        return None if found is None else found[name]

    return take


def _speed(measured: Measured) -> float | None:
    return None if measured["drawn"] is None else measured["drawn"]["per_second"]


def _calibration(measured: Measured) -> float | None:
    return None if measured["answers"] is None else measured["answers"]["calibration"]


def _of_test(name: str) -> Callable[[Measured], float | None]:
    return lambda measured: measured["test"].get(name)


def _rounded(value: float) -> str:
    """A large count in few signs: such numbers differ from run to run beyond their second digit."""
    if value >= 1e6:
        return f"{value / 1e6:,.1f}M"
    return f"{value / 1e3:,.0f}k" if value >= 1e4 else f"{value:,.0f}"


SHARPEST = Column("log-likelihood", _sharpest, "{:.2f}", "high")
NATS = Column(
    "nats", _of_likelihood("nats"), "{:.2f}", None,
    "Mean log-likelihood of a test example, in nats: more is better. Its kind says what the number is. An exact value "
    "is the log-likelihood. The truth lies above a lower bound. An estimate may err; by annealed importance sampling "
    "it makes a model look too good.",
)  # fmt: skip
TIGHTER = Column(
    "tighter bound", _of_likelihood("tighter"), "{:.2f}", None,
    f"The importance-weighted bound of a latent-variable model, with {IMPORTANCE_SAMPLES} samples for each example. It "
    "is a lower bound too, on average closer to the truth; the plain one has a single draw for each example, and of "
    "few examples it may be higher by chance. Models are ordered by the tighter one, and it gives the bits.",
)  # fmt: skip
BITS = Column(
    "bits / dim", _of_likelihood("bits"), "{:.3f}", None,
    "The same as bits per pixel value, minus nats / (D log 2), plus log₂ of the number of gray levels where these were "
    "dequantized: less is better. Of a bound, it is a bound from above.",
)  # fmt: skip
TWO_SAMPLE = Column(
    "two-sample", _of_samples("two_sample"), "{:.3f}", 0.5,
    "How often a random forest tells a sample from a test example that it has not seen: 0.5 if it cannot, 1 if it "
    "always can.",
)  # fmt: skip
PRECISION = Column(
    "precision", _of_samples("precision"), "{:.3f}", "high",
    "The share of samples that lie among test examples: inside the ball of one of them that reaches to its fifth "
    "nearest neighbor.",
)  # fmt: skip
COVERAGE = Column(
    "coverage", _of_samples("coverage"), "{:.3f}", "high",
    "The share of test examples that have a sample in that ball: how much of the variety is there.",
)  # fmt: skip
COPIES = Column(
    "near-copies", _of_samples("copies"), "{:.3f}", None,
    "The share of samples that are nearer to a training example than 95 % of the test examples are. About 0.05 is "
    "right; far more means that training data were memorized, and 0 with a low precision that samples lie beside the "
    "data.",
)  # fmt: skip
SPEED = Column(
    "samples / s", _speed, _rounded, "high",
    "How many samples are drawn in a second, in thousands (k) or millions (M) where there are many.",
)  # fmt: skip
ACCURACY = Column("accuracy", _of_test("accuracy"), "{:.4f}", "high", "The share of test examples answered rightly.")
LOG_LOSS = Column(
    "log loss", _of_test("nll"), "{:.4f}", "low", "Minus the mean log-probability of the true class, in nats."
)
CALIBRATION = Column(
    "calibration error", _calibration, "{:.4f}", "low",
    "How far confidence and accuracy lie apart on average over 15 bins of confidence: 0 if 80 % sure means right in "
    "80 % of cases.",
)  # fmt: skip
SECONDS = Column("training, s", lambda m: m["seconds"], "{:.1f}", "low", "The time of the training, without measuring.")
PARAMETERS = Column(
    "parameters", lambda m: float(m["parameters"]), "{:,.0f}", None,
    "How many numbers gradients train. A model that learns without gradients has none; its numbers are buffers.",
)  # fmt: skip


def sections(comparison: Comparison) -> list[Section]:
    """The tables of a comparison; classifiers first, and each form of the data by itself."""
    rows = [
        Row(label, tuple(entry for entry in comparison["runs"] if entry["label"] == label))
        for label in dict.fromkeys(entry["label"] for entry in comparison["runs"])
    ]
    questions: tuple[Question, ...] = ("classes", "densities", "others")
    found = []
    for question in questions:
        for form in FORMS:
            members = [row for row in rows if row.entries[0]["form"] == form and question in _questions(row)]
            if members:
                found.append(_section(question, form, members, comparison))
    return found


def failures(comparison: Comparison) -> dict[str, list[str]]:
    """What could not be trained or measured with some seed or any, by label, and why."""
    found = {label: [reason] for label, reason in comparison["unsuitable"].items()}
    for entry in comparison["runs"]:
        if entry["error"] is not None:
            reasons = found.setdefault(entry["label"], [])
            if entry["error"] not in reasons:
                reasons.append(entry["error"])
    return found


def _questions(row: Row) -> set[Question]:
    """Which questions a model answers; one that failed with every seed answers none."""
    found: set[Question] = set()
    for measured in row.measured:
        if measured["answers"] is not None:
            found.add("classes")
        if measured["likelihood"] is not None or measured["drawn"] is not None:
            found.add("densities")
        if not found:
            found.add("others")
    return found


def _section(question: Question, form: Form, members: Sequence[Row], comparison: Comparison) -> Section:
    columns = _columns(question, members)
    return Section(
        question,
        form,
        members[0].entries[0]["data"],
        tuple(sorted(members, key=lambda row: _place(question, row, columns))),
        columns,
        comparison["reference"].get(form),
    )


def _columns(question: Question, members: Sequence[Row]) -> tuple[Column, ...]:
    measured = [each for row in members for each in row.measured]
    metrics = dict.fromkeys(name for each in measured for name in each["metrics"])
    if question == "classes":
        return (ACCURACY, LOG_LOSS, CALIBRATION, SECONDS, PARAMETERS)
    if question == "others":
        return (*(_metric(name) for name in metrics or ["loss"]), SECONDS, PARAMETERS)
    known = (NATS, TIGHTER, BITS, TWO_SAMPLE, PRECISION, COVERAGE, COPIES)
    used = [column for column in known if any(row.values(column) for row in members)]
    own = [_metric(name) for name in metrics if name not in ("nll", "accuracy")]
    return (*used, *own, SPEED, SECONDS, PARAMETERS)


def _metric(name: str) -> Column:
    return Column(name.replace("_", " "), _of_test(name), "{:.4g}", None, "A measure that the model itself brings.")


def _place(question: Question, row: Row, columns: Sequence[Column]) -> tuple[float, ...]:
    """Where a row stands: by accuracy and log loss; by log-likelihood, then by how well samples pass for data."""
    first, second = {
        "classes": (ACCURACY, LOG_LOSS),
        "densities": (SHARPEST, TWO_SAMPLE),
        "others": (columns[0], SECONDS),
    }[question]
    places = ((column, row.mean(column)) for column in (first, second))
    return tuple(math.inf if mean is None else column.distance(mean) for column, mean in places)
