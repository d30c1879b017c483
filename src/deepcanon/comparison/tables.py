"""The tables of a comparison: one for each form of the data and each task, best models first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deepcanon.comparison.differences import Difference, Measure, told_apart, turned
from deepcanon.comparison.job import Comparison, Entry
from deepcanon.comparison.measures import IMPORTANCE_SAMPLES, BaselineMeasures, Measured
from deepcanon.comparison.quality import Quality
from deepcanon.comparison.support import FORMS, Form

DASH = "\N{EN DASH}"
"""The sign for a measure that a model does not have."""

Question = Literal["classes", "targets", "densities", "others"]


@dataclass(frozen=True)
class Column:
    """One measure: how it is taken from a run, how it is written, and whether high, low or one value is better.

    Where none is better, as with log-likelihoods of several kinds, no value is marked as the best. ``measure`` is the
    one by which the models are compared on the same test examples, where there is one.
    """

    title: str
    take: Callable[[Measured], float | None]
    form: str | Callable[[float], str] = "{:.3f}"
    better: Literal["high", "low"] | float | None = None
    meaning: str = ""
    measure: Measure | None = None
    baseline: str = ""
    """Its name among the scores of a baseline."""

    def write(self, value: float | None) -> str:
        if value is None:
            return DASH
        text = self.form.format(value) if isinstance(self.form, str) else self.form(value)
        return text.replace("-", "\N{MINUS SIGN}")

    def of_baseline(self, scores: Mapping[str, float | None]) -> float | None:
        """The same measure of a baseline."""
        return scores.get(self.baseline) if self.baseline else None

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
        found = next((each["likelihood"] for each in self.measured if each["likelihood"] is not None), None)
        return None if found is None else found["kind"]

    @property
    def given(self) -> str | None:
        """What its log-likelihood is conditioned on, None if on nothing."""
        found = next((each["likelihood"] for each in self.measured if each["likelihood"] is not None), None)
        return None if found is None else found.get("given")

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

    @property
    def chooser(self) -> Column:
        """The column that ranks models which predict; of classes the log loss, unless some have no probabilities."""
        if self.question == "targets":
            return RMSE
        return LOG_LOSS if all(row.mean(LOG_LOSS) is not None for row in self.rows) else BALANCED

    def marked(self, row: Row, column: Column) -> bool:
        """Whether a row is marked as the best in a column: it is sound, and no other row is as good.

        Where the models are compared on the same examples, a row is as good if the two cannot be told apart.
        """
        mean = row.mean(column)
        others = [other for other in self.rows if other is not row and other.mean(column) is not None]
        if mean is None or column.better is None or not others or self.failings(row):
            return False
        if column.measure is not None:
            return all(self._surely_better(row, other, column) for other in others)
        best = min((value for each in self.rows if (value := each.mean(column)) is not None), key=column.distance)
        return column.write(mean) == column.write(best)

    def tied(self, row: Row, column: Column) -> list[Row]:
        """The rows that cannot be told apart from this one by a measure, since the interval holds 0."""
        found = ((other, self.difference(row, other, column)) for other in self.rows if other is not row)
        return [other for other, gap in found if gap is not None and not told_apart(gap)]

    def difference(self, first: Row, second: Row, column: Column) -> Difference | None:
        """The difference of two rows in a measure, if it is known."""
        for found in self.differences:
            if found["measure"] == column.measure and found["form"] == self.form:
                if (found["first"], found["second"]) == (first.label, second.label):
                    return found
                if (found["first"], found["second"]) == (second.label, first.label):
                    return turned(found)
        return None

    def failings(self, row: Row) -> list[str]:
        """Why a row that predicts is no good, a sentence each: it misses a class, or does not beat its baseline."""
        if self.question not in ("classes", "targets"):
            return []
        return [*self._missed(row), *self.no_better(row)]

    def _missed(self, row: Row) -> list[str]:
        seeds = [each["classes"] for each in row.measured if each["classes"]]
        names = self.labels or tuple(map(str, range(len(seeds[0]) if seeds else 0)))
        return [
            f"{row.label} finds none of the {seeds[0][place]['examples']:,} test examples of the class {name!r}."
            for place, name in enumerate(names)
            if seeds and seeds[0][place]["examples"] and not any(classes[place]["found"] for classes in seeds)
        ]

    def no_better(self, row: Row) -> list[str]:
        """A sentence on a row that does not beat the baseline which looks at no input."""
        column, found = self.chooser, row.baseline
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


def _of_targets(name: Literal["rmse", "mae", "r2"]) -> Callable[[Measured], float | None]:
    return lambda measured: None if measured["targets"] is None else measured["targets"][name]


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
    "Mean log-likelihood of a test example, in nats and in the units of the data as given: higher is better. Its kind "
    "says what the number is. An exact "
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
ACCURACY = Column(
    "accuracy", _of_test("accuracy"), "{:.4f}", "high", "The share of correct predictions.", "accuracy", "accuracy"
)
LOG_LOSS = Column(
    "log loss", _of_test("nll"), "{:.4f}", "low",
    "The mean negative log-likelihood of the true class, in nats. It ranks the classifiers.", "log_loss", "nll",
)  # fmt: skip
BALANCED = Column(
    "balanced accuracy", _of_test("balanced_accuracy"), "{:.4f}", "high",
    "The mean over the classes of the recall, the share of the examples of a class that are found: each class counts "
    "alike, however rare. It ranks the classifiers where some give no probabilities.",
    "balanced_accuracy", "balanced_accuracy",
)  # fmt: skip
F1 = Column(
    "F1", _of_test("f1"), "{:.4f}", None,
    "The mean over the classes of the harmonic mean of precision and recall.", None, "f1",
)  # fmt: skip
ROC = Column(
    "ROC AUC", _of_test("roc_auc"), "{:.4f}", None,
    "The mean over the classes of the area under the ROC curve: the probability that an example of the class is given "
    "a higher probability of it than one of another class. 0.5 is random guessing.", None, "roc_auc",
)  # fmt: skip
PR = Column(
    "PR AUC", _of_test("pr_auc"), "{:.4f}", None,
    "The mean over the classes of the average precision, the area under the precision-recall curve. Random guessing "
    "reaches the share of the class.", None, "pr_auc",
)  # fmt: skip
RMSE = Column(
    "RMSE", _of_targets("rmse"), "{:.4g}", "low",
    "The root of the mean squared error, in the units of the target. It ranks the models.", "squared_error", "rmse",
)  # fmt: skip
MAE = Column(
    "MAE", _of_targets("mae"), "{:.4g}", None, "The mean absolute error, in the units of the target.", None, "mae",
)  # fmt: skip
R2 = Column(
    "R\N{SUPERSCRIPT TWO}", _of_targets("r2"), "{:.4f}", None,
    "The coefficient of determination: the share of the variance of the test targets that is predicted; 0 or less if "
    "their mean would do as well.", None, "r2",
)  # fmt: skip
CALIBRATION = Column(
    "calibration error", _calibration, "{:.4f}", None,
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
    questions: tuple[Question, ...] = ("classes", "targets", "densities", "others")
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
        if measured["targets"] is not None:
            found.add("targets")
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
        members[0].entries[0]["data"],
        tuple(members),
        columns,
        comparison["reference"].get(form),
        tuple(comparison["differences"]),
        tuple(comparison["data"]["labels"]),
    )
    return replace(section, rows=tuple(sorted(members, key=lambda row: _rank(section, row))))


def _columns(question: Question, members: Sequence[Row]) -> tuple[Column, ...]:
    measured = [each for row in members for each in row.measured]
    metrics = dict.fromkeys(name for each in measured for name in each["metrics"])
    if question == "classes":
        return (LOG_LOSS, ACCURACY, BALANCED, F1, ROC, PR, CALIBRATION, SECONDS, PARAMETERS)
    if question == "targets":
        return (RMSE, MAE, R2, SECONDS, PARAMETERS)
    if question == "others":
        return (*(_metric(name) for name in metrics or ["loss"]), SECONDS, PARAMETERS)
    known = (NATS, TIGHTER, ERROR, BITS, TWO_SAMPLE, PRECISION, COVERAGE, COPIES)
    used = [column for column in known if any(row.values(column) for row in members)]
    own = [_metric(name) for name in metrics if name not in ("nll", "accuracy")]
    return (*used, *own, SPEED, SECONDS, PARAMETERS)


def _metric(name: str) -> Column:
    return Column(name.replace("_", " "), _of_test(name), "{:.4g}", None, "A metric of the model itself.")


def _rank(section: Section, row: Row) -> tuple[float, ...]:
    """The rank of a row: by log loss or balanced accuracy; by error; by log-likelihood, then the two-sample test."""
    first, second = {
        "classes": (section.chooser, ACCURACY),
        "targets": (section.chooser, MAE),
        "densities": (SHARPEST, TWO_SAMPLE),
        "others": (section.columns[0], SECONDS),
    }[section.question]
    means = ((column, row.mean(column)) for column in (first, second))
    return tuple(math.inf if mean is None else column.distance(mean) for column, mean in means)
