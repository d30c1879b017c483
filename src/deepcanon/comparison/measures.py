"""Measures of one trained model: those that its methods allow, and the log-likelihood with its kind."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from typing_extensions import TypedDict

from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.comparison.calibration import PredictionMeasures, measure_predictions
from deepcanon.comparison.cost import Cost, CostMeasures, cost_of_examples
from deepcanon.comparison.differences import contributions, write_examples
from deepcanon.comparison.forecasted import ForecastMeasures, measure_forecasts
from deepcanon.comparison.quality import Quality, Yardstick
from deepcanon.comparison.support import Form
from deepcanon.core import (
    AnyBatch,
    Batch,
    DataError,
    Model,
    Sequences,
    Series,
    given_batch,
    is_conditional,
    log_likelihood,
)
from deepcanon.core.roles import HasLogProb, HasStepLogProbs, Samples
from deepcanon.data import Batches, Dataset
from deepcanon.data.tables.table import log_det_of_scaling, target_unit
from deepcanon.data.transforms.forms import PICTURED
from deepcanon.runs.folder import RunFolder
from deepcanon.train.baseline import fit_baseline
from deepcanon.train.health import BaselineScores
from deepcanon.train.plan import Plan
from deepcanon.train.randomness import kept
from deepcanon.train.scores import ClassScores, Predicted, gather
from deepcanon.train.settings import settings_of

IMPORTANCE_SAMPLES = 64
CHUNK, ROWS = 8192, 256
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
    """All measures of one run; ``test`` are those of ``deepcanon evaluate``, and what a model lacks is None.

    ``weights`` says which weights were kept, or what a baseline has chosen on validation data. ``examples`` are the
    measures to which it is kept what each test example contributes.
    """

    parameters: int | None
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
    forecasts: ForecastMeasures | None
    cost: CostMeasures | None
    baseline: BaselineMeasures | None
    examples: list[str]


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


class _OfMethods(TypedDict):
    """The measures that the methods of a model, or of a baseline, allow."""

    likelihood: Likelihood | None
    predictions: PredictionMeasures | None
    targets: TargetMeasures | None
    forecasts: ForecastMeasures | None
    cost: CostMeasures | None
    examples: list[str]


def measure(
    model: Model[Any],
    data: Dataset[Any],
    form: Form,
    run: RunFolder,
    yardstick: Yardstick | None,
    cost: Cost | None = None,
) -> Measured:
    """Measure a trained model on the test split of its data; ``cost`` is that of mistakes."""
    info, settings = run.info, settings_of(run.info, run.file)
    test: dict[str, float | None] = info["results"]["test"]
    held_out: AnyBatch = data.split("test")
    with torch.no_grad():
        metrics = model.metrics(held_out.select(torch.arange(min(FEW, len(held_out)))))
    with kept():
        predicted = gather(model, held_out)
    simpler: BaselineScores | None = info["results"].get("baseline")
    return {
        "parameters": info["parameters"],
        "buffers": sum(buffer.numel() for buffer in model.buffers()),
        "steps": info["results"]["steps"],
        "planned": Plan(len(data.train), settings).total,
        "seconds": info["results"]["seconds"],
        "weights": info["weights"],
        "watch": settings["watch"],
        "test": test,
        "metrics": list(metrics),
        "drawn": _drawn(model, held_out, yardstick, settings["seed"]),
        "classes": info["results"].get("by_class", {}).get("test", []),
        "baseline": None if simpler is None else _in_units(simpler["name"], simpler["test"], _unit(data)[1]),
        **_of_methods(model, data, form, run.dir, settings["seed"], predicted, test, cost),
    }


def measure_baseline(
    fitted: BaselineMethod,
    data: Dataset[Any],
    form: Form,
    folder: Path,
    seed: int,
    seconds: float,
    cost: Cost | None = None,
) -> Measured:
    """Measure a baseline on the test split, by the same code as a model."""
    held_out: AnyBatch = data.split("test")
    predicted = gather(fitted, held_out)
    steps = _nats_by_step(fitted, held_out)
    test: dict[str, float | None] = {} if steps is None else {"nll": -float(steps.mean())}
    if predicted is not None:
        means = {name: float(each.mean()) for name, each in contributions(predicted).items()}
        known = {"nll": means["log_loss"], "accuracy": means["accuracy"]} if predicted.is_classes else {}
        test = {**known, **predicted.scores()}
    like_a_model: Any = fitted
    simpler = fit_baseline(like_a_model, data.train, data.sizes) if predicted is not None else None
    return {
        "parameters": None,
        "buffers": 0,
        "steps": fitted.progress[0],
        "planned": fitted.progress[1],
        "seconds": seconds,
        "weights": fitted.choice,
        "watch": None,
        "test": test,
        "metrics": [],
        "drawn": None,
        "classes": [] if predicted is None else predicted.by_class,
        "baseline": None if simpler is None else _in_units(simpler.name, simpler.scores(held_out), _unit(data)[1]),
        **_of_methods(fitted, data, form, folder, seed, predicted, test, cost),
    }


def _of_methods(
    model: Any,
    data: Dataset[Any],
    form: Form,
    folder: Path,
    seed: int,
    predicted: Predicted | None,
    test: Mapping[str, float | None],
    cost: Cost | None,
) -> _OfMethods:
    """The measures by the methods that are there; what the examples contribute goes into the folder."""
    held_out: AnyBatch = data.split("test")
    target, unit = _unit(data)
    likelihood, each = _likelihood(model, data, form, test, seed)
    examples = {**({} if predicted is None else contributions(predicted, unit)), **each}
    if predicted is not None and predicted.is_classes and isinstance(model, Model):
        examples["log_loss"] = _without_underflow(model, held_out, examples["log_loss"])
    with kept():
        forecast = measure_forecasts(model, held_out, seed)
    if forecast is not None:
        examples["crps"] = forecast[1]
    if predicted is not None and cost is not None:
        with kept():
            valid = None if data.valid is None or predicted.is_classes else gather(model, data.valid)
        examples["cost"] = cost_of_examples(cost, predicted, valid, unit)
    if examples:
        write_examples(folder, examples)
    return {
        "likelihood": likelihood,
        "predictions": None if predicted is None else measure_predictions(predicted),
        "targets": None if predicted is None else _targets(predicted, target, unit),
        "forecasts": None if forecast is None else forecast[0],
        "cost": None
        if cost is None or "cost" not in examples
        else {"of": cost, "mean": float(examples["cost"].mean())},
        "examples": sorted(examples),
    }


def _without_underflow(model: Model[Any], held_out: AnyBatch, losses: Tensor) -> Tensor:
    """The log loss of each example, that of a probability too small for its type by the loss of the example alone.

    The mean is then the one that is shown, which a model computes from logits.
    """
    lost = (losses > -math.log(2 * torch.finfo(torch.float32).tiny)).nonzero().squeeze(1)
    if len(losses) != len(held_out):  # of nodes and positions, an example cannot be taken alone
        return losses
    found = losses.clone()
    with kept(), torch.no_grad():
        for place in lost.tolist():
            alone = model.metrics(held_out.select(torch.tensor([place], device=held_out.device))).get("nll")
            if alone is not None:
                found[place] = alone.double().cpu()
    return found


def _unit(data: Dataset[Any]) -> tuple[str | None, float]:
    """The name of a target that is a number, and its unit; else no name, and 1."""
    return (target_unit(data.preprocessing) if data.kind == "table" else None) or (None, 1.0)


def _targets(predicted: Predicted, target: str | None, unit: float) -> TargetMeasures | None:
    if predicted.is_classes:
        return None
    scores = predicted.scores()
    mae = float((predicted.mean - predicted.true).abs().sum(1).mean())
    return {"target": target, "rmse": scores["rmse"] * unit, "mae": mae * unit, "r2": scores.get("r2")}


def _in_units(name: str, scores: Mapping[str, float], unit: float) -> BaselineMeasures:
    """The scores of a baseline that uses no input, its errors in units of the target."""
    errors = {name: value * unit for name, value in scores.items() if name in ("rmse", "mae")}
    return {"name": name, "test": {**scores, **errors}}


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
    model: Model[Any], data: Dataset[Any], form: Form, test: Mapping[str, float | None], seed: int
) -> tuple[Likelihood | None, dict[str, Tensor]]:
    """The log-likelihood, and that of each example where it is exact, or a bound that is tightened by many draws."""
    held_out: AnyBatch = data.split("test")
    nll, of_draws = test.get("nll"), test.get("nll_error")
    if not isinstance(model, HasLogProb) or (nll is None and not held_out.is_a(Batch)):
        return None, {}
    nats = -nll if nll is not None else float(_log_probs(model, held_out, seed).mean())
    if not math.isfinite(nats):
        raise DataError(f"its log-likelihood of the test data is {nats}")
    latent = model.likelihood_kind == "lower bound" and getattr(model, "importance_weighted", False)
    samples = IMPORTANCE_SAMPLES if latent else None
    units = _scaling(data, held_out)
    paired = held_out.is_a(Batch) and (latent or model.likelihood_kind == "exact")
    each = _log_probs(model, held_out, seed, samples) if paired else _nats_by_step(model, held_out)
    each = None if each is None else each + units
    tighter = float(each.mean()) if latent and each is not None else None
    nats += float(units.mean())
    best = nats if tighter is None else tighter
    normalized = model.likelihood_kind != "unnormalized"
    found: Likelihood = {
        "nats": nats,
        "kind": model.likelihood_kind,
        "given": getattr(model, "conditioned_on", None),
        "per": held_out.term,
        "error": of_draws if of_draws is not None and not latent else _error(model, held_out, seed, samples),
        "tighter": tighter,
        "samples": samples,
        "bits": _bits(best, data, form) if normalized else None,
    }
    return found, {} if each is None else {"log_likelihood": each}


def _scaling(data: Dataset[Any], held_out: AnyBatch) -> Tensor:
    """What standardizing has added to the log-density of each term, or of all, with the sign that takes it back."""
    if isinstance(held_out, Series):
        return torch.tensor([0.0 if held_out.legend is None else held_out.legend.log_det(held_out)])
    return log_det_of_scaling(data.preprocessing, held_out.x) if data.kind == "table" else torch.zeros(1)


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


def _nats_by_step(model: Any, held_out: AnyBatch) -> Tensor | None:
    """The log-likelihood of each sequence or series, in such units that their mean is that of a token or a step.

    None of other data, and of a model that has none of single steps, or not an exact one.
    """
    if not isinstance(model, HasStepLogProbs) or model.likelihood_kind != "exact" or is_conditional(model):
        return None
    if not isinstance(held_out, Sequences | Series):
        return None
    asked: Any = model
    with torch.no_grad():
        parts = [
            asked.step_log_probs(part)
            if isinstance(part, Series)
            else asked.step_log_probs(part.x, lengths=part.lengths)
            for part in Batches(held_out, ROWS)
        ]
    return torch.cat([part.double().sum(1).cpu() for part in parts]) * (len(held_out) / max(1, held_out.weight))


def _error(model: HasLogProb, held_out: AnyBatch, seed: int, samples: int | None) -> float:
    """The Monte-Carlo error of the mean log-likelihood, of models that can tell it; 0 where nothing is drawn."""
    if not hasattr(model, "error_of_draws"):
        return 0.0
    with kept():
        torch.manual_seed(seed)
        parts = [(float(model.error_of_draws(part, samples)), len(part)) for part in Batches(held_out, CHUNK)]
    return math.sqrt(sum((error * rows) ** 2 for error, rows in parts)) / max(1, len(held_out))


def _drawn(model: Model[Any], held_out: AnyBatch, yardstick: Yardstick | None, seed: int) -> Drawn | None:
    if not isinstance(model, Samples) or not held_out.is_a(Batch):
        return None
    count = SPEED_SAMPLES if yardstick is None else len(yardstick.held_out)
    began = time.perf_counter()
    conditioned = given_batch(model, held_out.select(torch.arange(count) % len(held_out)))
    samples = conditioned.sample(count, generator=Generator().manual_seed(seed))
    speed = count / (time.perf_counter() - began)
    return {"per_second": speed, "quality": None if yardstick is None else yardstick.judge(samples)}
