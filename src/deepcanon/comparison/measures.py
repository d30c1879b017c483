"""Measures of one trained model: those that its methods allow, and the log-likelihood with its kind."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Generator, Tensor
from typing_extensions import TypedDict

from deepcanon.comparison.calibration import PredictionMeasures, measure_predictions
from deepcanon.comparison.differences import contributions, write_examples
from deepcanon.comparison.quality import Quality, Yardstick
from deepcanon.comparison.support import Form
from deepcanon.core import AnyBatch, Batch, DataError, Model, given_batch, log_likelihood
from deepcanon.core.roles import Decodes, Encodes, HasLogProb, Samples
from deepcanon.data import Batches, Dataset
from deepcanon.data.tables.table import log_det_of_scaling, target_unit
from deepcanon.data.transforms.forms import PICTURED
from deepcanon.runs.folder import RunFolder
from deepcanon.train.health import BaselineScores
from deepcanon.train.plan import Plan
from deepcanon.train.randomness import kept
from deepcanon.train.scores import ClassScores, Predicted, gather
from deepcanon.train.settings import settings_of

IMPORTANCE_SAMPLES = 64
CHUNK = 8192
SPEED_SAMPLES = 100
FEW = 16
"""The number of examples on which the metrics are computed, only to learn their names."""


class Likelihood(TypedDict):
    """The mean log-likelihood of the test split in nats, with its kind: exact, lower bound, estimate or unnormalized.

    For the lower bound (ELBO) of a latent-variable model there is a ``tighter`` one, the importance-weighted bound with
    its number of ``samples``. ``error`` is the Monte-Carlo error of the tightest: its standard deviation over the
    draws, 0 of an exact one. ``given`` names what a conditional model is conditioned on, and ``per`` what the mean is
    over: examples, the predicted tokens of sequences, the predicted steps of time series, or the frames of videos.
    ``bits`` are bits per dimension, of images and videos only. All are in the units of the data as they were given:
    where columns were standardized, the log-determinant of that is counted in.
    """

    nats: float
    kind: str
    given: str | None
    per: str
    error: float
    tighter: float | None
    samples: int | None
    bits: float | None


class Drawn(TypedDict):
    """Samples of the model: the speed of sampling, and their quality."""

    per_second: float
    quality: Quality | None


class Measured(TypedDict):
    """All measures of one run; ``test`` are those of ``deepcanon evaluate``, and what a model lacks is None."""

    parameters: int
    buffers: int
    steps: int
    planned: int
    seconds: float
    weights: str
    watch: str | None
    test: dict[str, float | None]
    metrics: list[str]
    likelihood: Likelihood | None
    drawn: Drawn | None
    predictions: PredictionMeasures | None
    classes: list[ClassScores]
    targets: TargetMeasures | None
    baseline: BaselineMeasures | None


class TargetMeasures(TypedDict):
    """The errors of a regression, in the units of its target, and the coefficient of determination."""

    target: str | None
    rmse: float
    mae: float
    r2: float | None


class BaselineMeasures(TypedDict):
    """The baseline of the run by its name, and what it reaches on the test split; errors in units of the target."""

    name: str
    test: dict[str, float | None]


def measure(model: Model[Any], data: Dataset[Any], form: Form, run: RunFolder, yardstick: Yardstick | None) -> Measured:
    """Measure a trained model on the test split of its data."""
    info, seed = run.info, settings_of(run.info, run.file)["seed"]
    test: dict[str, float | None] = info["results"]["test"]
    held_out: AnyBatch = data.split("test")
    with torch.no_grad():
        metrics = model.metrics(held_out.select(torch.arange(min(FEW, len(held_out)))))
    planned = Plan(len(data.train), settings_of(run.info, run.file)).total
    target, unit = (target_unit(data.preprocessing) if data.kind == "table" else None) or (None, 1.0)
    with kept():
        predicted = gather(model, held_out)
    likelihood, each = _likelihood(model, data, form, test.get("nll"), seed)
    examples = {**({} if predicted is None else contributions(predicted, unit)), **each}
    if examples:
        write_examples(run.dir, examples)
    return {
        "parameters": info["parameters"],
        "buffers": sum(buffer.numel() for buffer in model.buffers()),
        "steps": info["results"]["steps"],
        "planned": planned,
        "seconds": info["results"]["seconds"],
        "weights": info["weights"],
        "watch": settings_of(run.info, run.file)["watch"],
        "test": test,
        "metrics": list(metrics),
        "likelihood": likelihood,
        "drawn": _drawn(model, held_out, yardstick, seed),
        "predictions": None if predicted is None else measure_predictions(predicted),
        "classes": info["results"].get("by_class", {}).get("test", []),
        "targets": None if predicted is None else _targets(predicted, target, unit),
        "baseline": _baseline(info["results"].get("baseline"), unit),
    }


def _targets(predicted: Predicted, target: str | None, unit: float) -> TargetMeasures | None:
    if predicted.is_classes:
        return None
    scores = predicted.scores()
    mae = float((predicted.mean - predicted.true).abs().sum(1).mean())
    return {"target": target, "rmse": scores["rmse"] * unit, "mae": mae * unit, "r2": scores.get("r2")}


def _baseline(found: BaselineScores | None, unit: float) -> BaselineMeasures | None:
    if found is None:
        return None
    errors = {name: value * unit for name, value in found["test"].items() if name in ("rmse", "mae")}
    return {"name": found["name"], "test": {**found["test"], **errors}}


def bits_per_dimension(nats: float, dimensions: int, levels: int = 1) -> float:
    r"""The negative log-likelihood of gray levels in bits per dimension.

    For values :math:`x = (k + u) / L` of gray levels k with noise u in [0, 1), the density of k + u is :math:`L^{-D}`
    times that of x, and its logarithm bounds that of the probability of k from below (by Jensen). Hence

    .. math:: -\frac{\log p(x) - D \log L}{D \log 2} = -\frac{\log p(x)}{D \log 2} + \log_2 L

    Probabilities of binary values are not densities and have ``levels`` 1.

    References:
        | A note on the evaluation of generative models (Theis et al., 2016), https://arxiv.org/abs/1511.01844

    >>> bits_per_dimension(0.0, dimensions=64, levels=16)  # a uniform density: all gray levels are alike
    4.0
    """
    return -nats / (dimensions * math.log(2)) + math.log2(levels)


def _likelihood(
    model: Model[Any], data: Dataset[Any], form: Form, nll: float | None, seed: int
) -> tuple[Likelihood | None, dict[str, Tensor]]:
    """The log-likelihood, and that of each example where it is exact, or a bound that is tightened by many draws."""
    held_out: AnyBatch = data.split("test")
    if not isinstance(model, HasLogProb) or (nll is None and not isinstance(held_out, Batch)):
        return None, {}
    nats = -nll if nll is not None else float(_log_probs(model, held_out, seed).mean())
    if not math.isfinite(nats):
        raise DataError(f"its log-likelihood of the test data is {nats}")
    latent = model.likelihood_kind == "lower bound" and isinstance(model, Encodes) and isinstance(model, Decodes)
    samples = IMPORTANCE_SAMPLES if latent else None
    scaling = log_det_of_scaling(data.preprocessing) if data.kind == "table" else 0.0
    paired = isinstance(held_out, Batch) and (latent or model.likelihood_kind == "exact")
    each = _log_probs(model, held_out, seed, samples) + scaling if paired else None
    tighter = float(each.mean()) if latent and each is not None else None
    nats += scaling
    best = nats if tighter is None else tighter
    normalized = model.likelihood_kind != "unnormalized"
    found: Likelihood = {
        "nats": nats,
        "kind": model.likelihood_kind,
        "given": getattr(model, "conditioned_on", None),
        "per": held_out.term,
        "error": _error(model, held_out, seed, samples),
        "tighter": tighter,
        "samples": samples,
        "bits": _bits(best, data, form) if normalized else None,
    }
    return found, {} if each is None else {"log_likelihood": each}


def _bits(nats: float, data: Dataset[Any], form: Form) -> float | None:
    if data.kind not in PICTURED or form == "plain":
        return None
    levels = data.preprocessing["levels"] if form == "dequantized" else 1
    return bits_per_dimension(nats, math.prod(data.shape[-3:]), levels)  # of an image, or of a frame


def _log_probs(model: HasLogProb, held_out: AnyBatch, seed: int, samples: int | None = None) -> Tensor:
    generator = Generator().manual_seed(seed)
    with torch.no_grad():
        parts = [
            log_likelihood(given_batch(model, part), part.x, samples=samples, generator=generator).double()
            for part in Batches(held_out, CHUNK)
        ]
    return torch.cat(parts).cpu()


def _error(model: HasLogProb, held_out: AnyBatch, seed: int, samples: int | None) -> float:
    """The Monte-Carlo error of the mean log-likelihood, of models that can tell it; 0 where nothing is drawn."""
    if not hasattr(model, "error_of_draws"):
        return 0.0
    with kept():
        torch.manual_seed(seed)
        parts = [(float(model.error_of_draws(part, samples)), len(part)) for part in Batches(held_out, CHUNK)]
    return math.sqrt(sum((error * rows) ** 2 for error, rows in parts)) / max(1, len(held_out))


def _drawn(model: Model[Any], held_out: AnyBatch, yardstick: Yardstick | None, seed: int) -> Drawn | None:
    if not isinstance(model, Samples) or not isinstance(held_out, Batch):
        return None
    count = SPEED_SAMPLES if yardstick is None else len(yardstick.held_out)
    began = time.perf_counter()
    conditioned = given_batch(model, held_out.select(torch.arange(count) % len(held_out)))
    samples = conditioned.sample(count, generator=Generator().manual_seed(seed))
    speed = count / (time.perf_counter() - began)
    return {"per_second": speed, "quality": None if yardstick is None else yardstick.judge(samples)}
