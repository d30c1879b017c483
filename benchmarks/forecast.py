"""DeepAR compared with GluonTS's and with a seasonal naive forecast: CRPS on the same series, origins and steps.

    python benchmarks/forecast.py [--seeds 3] [--steps 750] [--json results.json]

All learn from the first hours of the set ``series`` and forecast the last three days, a day at a time, by 100 sample
paths. GluonTS's DeepAREstimator has the same layers, covariates, ids, likelihood, given steps, batches and number of
them, and our learning rate; "same inputs" also has no lags and no features of the calendar beyond those of the data,
as ours, while "as it comes" reads values of days before. The seasonal naive forecast is the day before. The CRPS is in
units of the mean absolute value of all series, where the large ones count for most, and as the mean over series, each
in units of its own mean.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import logging
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from gluonts.dataset.common import ListDataset
from gluonts.torch import DeepAREstimator
from torch import Tensor

import deepcanon as dc
from deepcanon.data.sets.series import DAYS, GIVEN, HOURS, ITEMS, STEPS, TESTS, demand
from deepcanon.losses import crps

BATCH, RATE, UNITS, LAYERS, PATHS = 64, 5e-3, 40, 2, 100
START = pd.Period("2024-01-01 00:00", freq="h")  # a Monday, as the set begins with one


def ours(seed: int, steps: int) -> Tensor:
    data = dc.load_data("series")
    torch.manual_seed(seed)
    model: Any = dc.find("deepar")(**data.sizes, units=UNITS, layers=LAYERS)
    dc.fit(model, data, steps=steps, batch_size=BATCH, lr=RATE, seed=seed, quiet=True)
    paths: Tensor = model.forecast(
        data.split("test").past, STEPS, samples=PATHS, generator=torch.Generator().manual_seed(seed)
    )
    return paths.squeeze(3)


def gluonts(seed: int, steps: int, **inputs: Any) -> Tensor:
    whole, _ = demand(ITEMS, DAYS, seed=0)
    end = int(whole.lengths[0]) - (TESTS + 1) * STEPS
    torch.manual_seed(seed)
    estimator = DeepAREstimator(
        freq="h", prediction_length=STEPS, context_length=GIVEN, num_layers=LAYERS, hidden_size=UNITS, lr=RATE,
        dropout_rate=0.0, num_feat_dynamic_real=4, num_feat_static_cat=1, cardinality=[ITEMS], embedding_dimension=[8],
        batch_size=BATCH, num_batches_per_epoch=50, num_parallel_samples=PATHS,
        trainer_kwargs={
            "max_epochs": steps // 50, "accelerator": "cpu", "logger": False, "enable_progress_bar": False,
            "enable_model_summary": False, "enable_checkpointing": True,
        },
        **inputs,
    )  # fmt: skip
    predictor = estimator.train(listed(whole, [end], ahead=0))
    origins = [end + STEPS * test for test in range(1, 1 + TESTS)]
    forecasts = predictor.predict(listed(whole, origins, ahead=STEPS))
    return torch.stack([torch.from_numpy(each.samples) for each in forecasts], 1)  # (paths, rows, steps)


def listed(whole: Any, ends: list[int], ahead: int) -> ListDataset:
    """The series up to each of the ends, item by item, with covariates of so many further hours."""

    def entries() -> Iterator[dict[str, Any]]:
        for item in range(ITEMS):
            for end in ends:
                yield {
                    "start": START, "target": whole.x[item, :end, 0].numpy(), "feat_static_cat": [item],
                    "feat_dynamic_real": whole.covariates[item, : end + ahead].T.numpy(),
                }  # fmt: skip

    return ListDataset(list(entries()), freq="h")


def naive(seed: int, steps: int) -> Tensor:
    series = dc.load_data("series").split("test")
    day: Tensor = series.x[:, GIVEN - HOURS : GIVEN, 0]
    return day.expand(2, -1, -1)


def scores(paths: Tensor) -> dict[str, float]:
    truth = dc.load_data("series").split("test").x[:, GIVEN:, 0]
    score = crps(paths, truth)
    low, high = (paths.quantile(level, 0) for level in (0.1, 0.9))
    each = score.reshape(ITEMS, -1).mean(1) / truth.reshape(ITEMS, -1).mean(1).clamp_min(1e-9)
    return {
        "crps": float(score.sum() / truth.abs().sum()),
        "crps_by_series": float(each.mean()),
        "coverage_80": float(((low <= truth) & (truth <= high)).float().mean()),
    }


def shown(row: dict[str, float]) -> str:
    return "".join(f"  {score} {value:.4f}" for score, value in row.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=750)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    candidates: dict[str, Callable[[int, int], Tensor]] = {
        "deepcanon": ours,
        "gluonts, same inputs": lambda seed, steps: gluonts(seed, steps, lags_seq=[1], time_features=[]),
        "gluonts, as it comes": gluonts,
        "seasonal naive": naive,
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in candidates}
    for seed in range(options.seeds):
        for name, candidate in candidates.items():
            begun = time.perf_counter()
            measured = scores(candidate(seed, options.steps))
            found[name].append({**measured, "seconds": time.perf_counter() - begun})
            print(f"seed {seed}: {name:24}" + shown(found[name][-1]), flush=True)
    print(f"{options.seeds} seeds, {options.steps} steps of {BATCH}; medians")
    medians = {
        name: {score: statistics.median(each[score] for each in rows) for score in rows[0]}
        for name, rows in found.items()
    }
    for name, row in medians.items():
        print(f"  {name:24}" + shown(row))
    if options.json:
        facts = {"machine": platform.machine(), "torch": torch.__version__, "medians": medians, "all": found}
        options.json.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
