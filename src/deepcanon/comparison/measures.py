"""Measures of one trained model: those that its methods allow, and the log-likelihood with its kind."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Generator
from typing_extensions import TypedDict

from deepcanon.comparison.calibration import PredictionMeasures, measure_predictions
from deepcanon.comparison.quality import Quality, Yardstick
from deepcanon.comparison.support import Form
from deepcanon.core import AnyBatch, Batch, DataError, Labeled, Model, given_batch, log_likelihood
from deepcanon.core.roles import Decodes, Encodes, HasLogProb, Samples
from deepcanon.data import Batches, Dataset
from deepcanon.data.tables.table import log_det_of_scaling
from deepcanon.runs.folder import RunFolder
from deepcanon.train.plan import Plan
from deepcanon.train.randomness import kept
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
    over: examples, the predicted tokens of sequences, or the predicted steps of time series. ``bits`` are bits per
    dimension, of images only. All are in the units of the data as they were given: where columns were standardized,
    the log-determinant of that is counted in.
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


def measure(model: Model[Any], data: Dataset[Any], form: Form, run: RunFolder, yardstick: Yardstick | None) -> Measured:
    """Measure a trained model on the test split of its data."""
    info, seed = run.info, settings_of(run.info, run.file)["seed"]
    test: dict[str, float | None] = info["results"]["test"]
    held_out: AnyBatch = data.split("test")
    with torch.no_grad():
        metrics = model.metrics(held_out.select(torch.arange(min(FEW, len(held_out)))))
    planned = Plan(len(data.train), settings_of(run.info, run.file)).total
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
        "likelihood": _likelihood(model, data, form, test.get("nll"), seed),
        "drawn": _drawn(model, held_out, yardstick, seed),
        "predictions": measure_predictions(model, held_out) if isinstance(held_out, Labeled) else None,
    }


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


def _likelihood(model: Model[Any], data: Dataset[Any], form: Form, nll: float | None, seed: int) -> Likelihood | None:
    held_out: AnyBatch = data.split("test")
    if not isinstance(model, HasLogProb) or (nll is None and not isinstance(held_out, Batch)):
        return None
    nats = -nll if nll is not None else _mean_log_prob(model, held_out, seed)
    if not math.isfinite(nats):
        raise DataError(f"its log-likelihood of the test data is {nats}")
    latent = model.likelihood_kind == "lower bound" and isinstance(model, Encodes) and isinstance(model, Decodes)
    samples = IMPORTANCE_SAMPLES if latent else None
    scaling = log_det_of_scaling(data.preprocessing) if data.kind == "table" else 0.0
    tighter = _mean_log_prob(model, held_out, seed, samples) + scaling if latent else None
    nats += scaling
    best = nats if tighter is None else tighter
    normalized = model.likelihood_kind != "unnormalized"
    return {
        "nats": nats,
        "kind": model.likelihood_kind,
        "given": getattr(model, "conditioned_on", None),
        "per": held_out.term,
        "error": _error(model, held_out, seed, samples),
        "tighter": tighter,
        "samples": samples,
        "bits": _bits(best, data, form) if normalized else None,
    }


def _bits(nats: float, data: Dataset[Any], form: Form) -> float | None:
    if data.kind != "images" or form == "plain":
        return None
    levels = data.preprocessing["levels"] if form == "dequantized" else 1
    return bits_per_dimension(nats, math.prod(data.shape), levels)


def _mean_log_prob(model: HasLogProb, held_out: AnyBatch, seed: int, samples: int | None = None) -> float:
    generator = Generator().manual_seed(seed)
    with torch.no_grad():
        parts = [
            log_likelihood(given_batch(model, part), part.x, samples=samples, generator=generator).double().sum()
            for part in Batches(held_out, CHUNK)
        ]
    return float(torch.stack(parts).sum()) / len(held_out)


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
