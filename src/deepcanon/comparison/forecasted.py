"""Measures of forecasts: how far sample paths from the forecast origin are from what came true."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor
from typing_extensions import TypedDict

from deepcanon.core import AnyBatch, Series
from deepcanon.core.roles import Forecasts
from deepcanon.core.series import steps_from
from deepcanon.data import Batches
from deepcanon.losses import crps
from deepcanon.runs.forecasting import ROWS_AT_ONCE

PATHS = 100
COVERED = 0.8
"""The share of what comes true that the interval of the paths should hold."""


class ForecastMeasures(TypedDict):
    """Measures of the forecasts of the test series over so many ``steps``.

    ``crps`` is the continuous ranked probability score in units of the mean absolute value, ``rmse`` and ``mae`` are
    the errors of the mean and of the median path in the units of the data, ``covered`` is the share of values in the
    central 80 % of the paths.
    """

    steps: int
    crps: float
    rmse: float
    mae: float
    covered: float


def measure_forecasts(model: Any, held_out: AnyBatch, seed: int) -> tuple[ForecastMeasures, Tensor] | None:
    """The measures of a model that forecasts series, and what each series adds to the CRPS; None of any other."""
    if not isinstance(held_out, Series) or not isinstance(model, Forecasts):
        return None
    steps = int((held_out.lengths - held_out.origins).min())
    if steps < 1:
        return None
    generator = Generator().manual_seed(seed)
    parts = [
        model.forecast(part.past, steps, samples=PATHS, generator=generator) for part in Batches(held_out, ROWS_AT_ONCE)
    ]
    paths = torch.cat(parts, 1).double().cpu()
    truth = steps_from(held_out.x, held_out.origins, steps).double().cpu()
    if held_out.legend is not None:  # in the units of their file
        paths, truth = (held_out.legend.in_units(each, held_out) for each in (paths, truth))
    there = ~truth.isnan()  # what is missing is not compared with
    if not bool(there.flatten(1).any(1).all()):
        return None
    unit = float(truth[there].abs().mean()) or 1.0
    each = crps(paths, truth).flatten(1).nanmean(1) / unit
    low, median, high = paths.quantile(paths.new_tensor([(1 - COVERED) / 2, 0.5, (1 + COVERED) / 2]), 0)
    return {
        "steps": steps,
        "crps": float(each.mean()),
        "rmse": float((paths.mean(0) - truth)[there].square().mean().sqrt()),
        "mae": float((median - truth)[there].abs().mean()),
        "covered": float(((truth >= low) & (truth <= high))[there].double().mean()),
    }, each
