"""The columns of the tables of a comparison: one measure each, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from deepcanon.comparison.differences import Measure
from deepcanon.comparison.measures import IMPORTANCE_SAMPLES, Measured

DASH = "\N{EN DASH}"
"""The sign for a measure that a model does not have."""


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


def metric(name: str) -> Column:
    """The column of a metric that a model brings."""
    return Column(name.replace("_", " "), _of_test(name), "{:.4g}", None, "A metric of the model itself.")


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


def _of_forecasts(name: Literal["crps", "rmse", "mae", "covered"]) -> Callable[[Measured], float | None]:
    return lambda measured: None if measured["forecasts"] is None else measured["forecasts"][name]


def _cost(measured: Measured) -> float | None:
    return None if measured["cost"] is None else measured["cost"]["mean"]


def _of_test(name: str) -> Callable[[Measured], float | None]:
    return lambda measured: measured["test"].get(name)


def _parameters(measured: Measured) -> float | None:
    return None if measured["parameters"] is None else float(measured["parameters"])


def _rounded(value: float) -> str:
    """A large count in few characters: such numbers differ from run to run beyond their second digit."""
    if value >= 1e6:
        return f"{value / 1e6:,.1f}M"
    return f"{value / 1e3:,.0f}k" if value >= 1e4 else f"{value:,.0f}"


SHARPEST = Column("log-likelihood", _sharpest, "{:.2f}", "high", measure="log_likelihood")
NATS = Column(
    "nats", _of_likelihood("nats"), "{:.2f}", None,
    "Mean log-likelihood of a test example, in nats and in the units of the data as given: higher is better. Of "
    "sequences it is that of a predicted token, of time series that of a predicted step. Given classes, or whatever a "
    "model is conditioned on, it is another question, and stands apart. Its kind "
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
CRPS = Column(
    "CRPS", _of_forecasts("crps"), "{:.4f}", "low",
    "The continuous ranked probability score of the forecasts from the forecast origin on, in units of the mean "
    "absolute value: what the absolute error is for a single path, for a sample of paths. It ranks the forecasts.",
    "crps",
)  # fmt: skip
FORECAST_RMSE = Column(
    "RMSE", _of_forecasts("rmse"), "{:.4g}", None, "The root of the mean squared error of the mean path, in the units "
    "of the series.",
)  # fmt: skip
FORECAST_MAE = Column(
    "MAE", _of_forecasts("mae"), "{:.4g}", None, "The mean absolute error of the median path, in the units of the "
    "series.",
)  # fmt: skip
COVERED = Column(
    "in 80 % interval", _of_forecasts("covered"), "{:.3f}", 0.8,
    "The share of values that came true between the quantiles of 10 % and 90 % of the paths: 0.8 is right.",
)  # fmt: skip
COST = Column(
    "mean cost", _cost, "{:.4g}", "low",
    "The mean cost of the decisions, by the costs of mistakes that were given. Of classes, the one with the least "
    "expected cost by the predicted probabilities is decided on; a number is shifted by a quantile of the errors on "
    "validation data.", "cost",
)  # fmt: skip
PARAMETERS = Column(
    "parameters", _parameters, "{:,.0f}", None,
    "The number of parameters trained by gradients. A model that is fitted without gradients has none; it has buffers.",
)  # fmt: skip
