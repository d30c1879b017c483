"""The tables of a comparison: one for each form of the data and each task, best models first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from deepcanon.comparison.job import Comparison, Entry
from deepcanon.comparison.measures import IMPORTANCE_SAMPLES, Likelihood, Measured
from deepcanon.comparison.quality import Quality
from deepcanon.comparison.support import FORMS, Form

DASH = "\N{EN DASH}"
"""The sign for a measure that a model does not have."""

Question = Literal["classes", "densities", "others"]


@dataclass(frozen=True)
class Column:
    """One measure: how it is taken from a run, how it is written, and whether high, low or one value is better.

    Where none is better, as with log-likelihoods of several kinds, no value is marked as the best.
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
        """The distance of a value from the best, up to a constant."""
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

    def best(self, column: Column) -> float | None:
        """The best mean of a column; none where nothing is better or there is nothing to compare."""
        means = [value for row in self.rows if (value := row.mean(column)) is not None]
        if column.better is None or len(means) < 2:
            return None
        return min(means, key=column.distance)


def _sharpest(measured: Measured) -> float | None:
    """The log-likelihood that ranks models: the tighter bound where there is one, and none that is unnormalized.

    The plain bound, with one draw for each example, may be larger at random; the larger of the two would be biased.
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


def _error_of_draws(measured: Measured) -> float | None:
    found = measured["likelihood"]
    return None if found is None else found.get("error") or None  # an exact one has none


def _speed(measured: Measured) -> float | None:
    return None if measured["drawn"] is None else measured["drawn"]["per_second"]


def _calibration(measured: Measured) -> float | None:
    return None if measured["predictions"] is None else measured["predictions"]["calibration"]


def _of_test(name: str) -> Callable[[Measured], float | None]:
    return lambda measured: measured["test"].get(name)


def _rounded(value: float) -> str:
    """A large count in few characters: such numbers differ from run to run beyond their second digit."""
    if value >= 1e6:
        return f"{value / 1e6:,.1f}M"
    return f"{value / 1e3:,.0f}k" if value >= 1e4 else f"{value:,.0f}"


SHARPEST = Column("log-likelihood", _sharpest, "{:.2f}", "high")
NATS = Column(
    "nats", _of_likelihood("nats"), "{:.2f}", None,
    "Mean log-likelihood of a test example, in nats and in the units of the data as given: higher is better. Of "
    "sequences it is that of a predicted token, of time series that of a predicted step. Given classes, or whatever a "
    "model is conditioned on, it is another question, and stands apart. Its kind says what the number is. An exact "
    "value is the log-likelihood itself. A lower bound lies below it. An estimate may be wrong; by annealed importance "
    "sampling it is too high on average.",
)  # fmt: skip
ERROR = Column(
    "± by draws", _error_of_draws, "{:.3f}", None,
    "The Monte-Carlo error of a bound or an estimate, of the tighter one where there is one: its standard deviation if "
    "it were drawn again for the same test examples. An exact value has none.",
)  # fmt: skip
TIGHTER = Column(
    "tighter bound", _of_likelihood("tighter"), "{:.2f}", None,
    f"The importance-weighted bound of a latent-variable model, with {IMPORTANCE_SAMPLES} samples for each example. It "
    "is a lower bound too, on average closer to the log-likelihood; the plain one (ELBO) has a single draw for each "
    "example, and on few examples it may be higher at random. The tighter one ranks the models and gives the bits.",
)  # fmt: skip
BITS = Column(
    "bits / dim", _of_likelihood("bits"), "{:.3f}", None,
    "The same in bits per dimension, minus nats / (D log 2), plus log₂ of the number of gray levels where these were "
    "dequantized: lower is better. For a lower bound on the log-likelihood it is an upper bound.",
)  # fmt: skip
TWO_SAMPLE = Column(
    "two-sample", _of_samples("two_sample"), "{:.3f}", 0.5,
    "The accuracy of a random forest that classifies samples against test examples, by cross-validation: 0.5 if it "
    "cannot distinguish them, 1 if it always can.",
)  # fmt: skip
PRECISION = Column(
    "precision", _of_samples("precision"), "{:.3f}", "high",
    "The share of samples that lie among test examples: inside the ball of one of them that reaches to its fifth "
    "nearest neighbor.",
)  # fmt: skip
COVERAGE = Column(
    "coverage", _of_samples("coverage"), "{:.3f}", "high",
    "The share of test examples that have a sample in that ball: the diversity of the samples.",
)  # fmt: skip
COPIES = Column(
    "near-copies", _of_samples("copies"), "{:.3f}", None,
    "The share of samples that are nearer to a training example than 95 % of the test examples are. About 0.05 is "
    "right; far more means that training data were memorized, and 0 with a low precision that samples lie far from the "
    "data.",
)  # fmt: skip
SPEED = Column(
    "samples / s", _speed, _rounded, "high",
    "The number of samples drawn per second, in thousands (k) or millions (M) where there are many.",
)  # fmt: skip
ACCURACY = Column("accuracy", _of_test("accuracy"), "{:.4f}", "high", "The share of correct predictions.")
LOG_LOSS = Column(
    "log loss", _of_test("nll"), "{:.4f}", "low", "The mean negative log-likelihood of the true class, in nats."
)
CALIBRATION = Column(
    "calibration error", _calibration, "{:.4f}", "low",
    "The expected calibration error: the mean difference of confidence and accuracy over 15 bins of confidence, 0 if "
    "predictions with a probability of 80 % are right in 80 % of cases.",
)  # fmt: skip
SECONDS = Column("training, s", lambda m: m["seconds"], "{:.1f}", "low", "The time of the training, without measuring.")
PARAMETERS = Column(
    "parameters", lambda m: float(m["parameters"]), "{:,.0f}", None,
    "The number of parameters trained by gradients. A model that is fitted without gradients has none; it has buffers.",
)  # fmt: skip


def sections(comparison: Comparison) -> list[Section]:
    """The tables of a comparison; classifiers first, and one for each form of the data."""
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
        tuple(sorted(members, key=lambda row: _rank(question, row, columns))),
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
    known = (NATS, TIGHTER, ERROR, BITS, TWO_SAMPLE, PRECISION, COVERAGE, COPIES)
    used = [column for column in known if any(row.values(column) for row in members)]
    elsewhere = {"nll", "nll_error"} | ({"accuracy"} if any(each["predictions"] for each in measured) else set())
    own = [_metric(name) for name in metrics if name not in elsewhere]
    speed = [SPEED] if any(row.values(SPEED) for row in members) else []
    return (*used, *own, *speed, SECONDS, PARAMETERS)


def _metric(name: str) -> Column:
    return Column(name.replace("_", " "), _of_test(name), "{:.4g}", None, "A metric of the model itself.")


def _rank(question: Question, row: Row, columns: Sequence[Column]) -> tuple[float, ...]:
    """The rank of a row: by accuracy and log loss; by log-likelihood, then by the two-sample test.

    Log-likelihoods given something come after those given nothing, in an order of their own.
    """
    first, second = {
        "classes": (ACCURACY, LOG_LOSS),
        "densities": (SHARPEST, TWO_SAMPLE),
        "others": (columns[0], SECONDS),
    }[question]
    means = ((column, row.mean(column)) for column in (first, second))
    apart = float(question == "densities" and row.given is not None)
    return (apart, *(math.inf if mean is None else column.distance(mean) for column, mean in means))
