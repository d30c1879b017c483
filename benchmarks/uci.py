"""The UCI regression sets with their published splits: our MLP and gradient boosting next to published figures.

    python benchmarks/uci.py [--sets yacht concrete ...] [--splits 20] [--json results.json]

The RMSE on the test rows, mean +- standard error over the splits, in the units of the target. The splits are those of
Hernandez-Lobato and Adams (2015, probabilistic backpropagation, PBP, https://arxiv.org/abs/1502.05336) and of Gal and
Ghahramani (2016, MC dropout, https://arxiv.org/abs/1506.02142), whose figures are the published ones; the spread that
they give for MC dropout is the standard deviation over the splits, and is divided by its root here.

Of every split a fifth of the training rows validates: each of the CHOICES is trained on the others, and the one of the
lowest validation RMSE is trained again on all training rows. Test rows choose nothing. Gradient boosting is
scikit-learn's as it comes, on the same training rows.

The sets are those that `deepcanon data` lists as uci:yacht and so on; `deepcanon compare mlp --data uci:yacht:split=3`
compares on one split.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

import deepcanon as dc
from deepcanon.data.tables.table import in_original_units, original_rows
from deepcanon.models.feedforward.mlp import MLP

Values = NDArray[np.float64]

PUBLISHED = {
    "boston": ((3.01, 0.18), (2.97, 0.85)),
    "concrete": ((5.67, 0.09), (5.23, 0.53)),
    "energy": ((1.80, 0.05), (1.66, 0.19)),
    "kin8nm": ((0.10, 0.00), (0.10, 0.00)),
    "naval": ((0.01, 0.00), (0.01, 0.00)),
    "power": ((4.12, 0.03), (4.02, 0.18)),
    "wine-red": ((0.64, 0.01), (0.62, 0.04)),
    "yacht": ((1.02, 0.05), (1.11, 0.38)),
}
"""Of each set the RMSE of PBP with its standard error, and of MC dropout with its standard deviation over 20 splits."""
PUBLISHED_SPLITS = 20
CHOICES: dict[str, dict[str, Any]] = {
    "100": {"hidden": (100,)},
    "100/100": {"hidden": (100, 100)},
    "100/100, dropout 0.1": {"hidden": (100, 100), "dropout": 0.1},
}
STEPS, MOST_EPOCHS, BATCH = 6000, 300, 64
"""A training has so many steps, or so many epochs if these are fewer."""


@dataclass(frozen=True)
class Split:
    """One published split: its training and test rows, in their units."""

    x: Values
    y: Values
    x_test: Values
    y_test: Values


def published(name: str, place: int) -> Split:
    """A split of the set ``uci:NAME``, with the rows that validate among those of the training."""
    data = dc.load_data(f"uci:{name}:split={place}")
    table = data.preprocessing
    parts = [data.split(part) for part in ("train", "valid", "test")]
    rows = [np.column_stack(list(original_rows(part.x.double(), table).values())) for part in parts]
    targets = [in_original_units(part.y.double(), table)[:, 0].numpy() for part in parts]
    return Split(np.concatenate(rows[:2]), np.concatenate(targets[:2]), rows[2], targets[2])


def rmse(predicted: Values, true: Values) -> float:
    return float(np.sqrt(np.mean((predicted - true) ** 2)))


def perceptron(split: Split, seed: int) -> tuple[float, str]:
    """The test RMSE of our MLP, and the arguments that the validation rows have chosen."""
    rows = np.random.default_rng(seed).permutation(len(split.y))
    held, rest = rows[: len(rows) // 5], rows[len(rows) // 5 :]
    errors = {
        name: rmse(trained(choice, split.x[rest], split.y[rest], seed)(split.x[held]), split.y[held])
        for name, choice in CHOICES.items()
    }
    chosen = min(errors, key=errors.__getitem__)
    return rmse(trained(CHOICES[chosen], split.x, split.y, seed)(split.x_test), split.y_test), chosen


def trained(choice: dict[str, Any], x: Values, y: Values, seed: int) -> Callable[[Values], Values]:
    """The predictions of an MLP that has learned from these rows."""
    center, scale = x.mean(0), np.where(x.std(0) > 0, x.std(0), 1.0)
    mean, unit = y.mean(), y.std()

    def rows(values: Values) -> NDArray[np.float32]:
        return np.asarray((values - center) / scale, dtype=np.float32)

    torch.manual_seed(seed)
    model = MLP(x.shape[1], targets=1, **choice)
    epochs = min(MOST_EPOCHS, max(1, STEPS * BATCH // len(x)))
    data = dc.data.from_tensors(rows(x), ((y - mean) / unit).astype(np.float32))
    dc.fit(model, data, quiet=True, seed=seed, epochs=epochs, batch_size=BATCH, lr=3e-3, schedule="cosine",
           evaluate=False)  # fmt: skip

    def predict(values: Values) -> Values:
        with torch.no_grad():
            found = model.eval().predict(torch.from_numpy(rows(values)), how="mean")[:, 0].double().numpy()
        return np.asarray(found * unit + mean)

    return predict


def boosting(split: Split, seed: int) -> float:
    model = HistGradientBoostingRegressor(random_state=seed).fit(split.x, split.y)
    return rmse(model.predict(split.x_test), split.y_test)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="+", default=list(PUBLISHED), choices=PUBLISHED)
    parser.add_argument("--splits", type=int, default=20, choices=range(2, 21), metavar="2..20")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for name in asked.sets:
        began, ours, theirs, chosen = time.perf_counter(), [], [], []
        for seed in range(asked.splits):
            split = published(name, seed)
            error, choice = perceptron(split, seed)
            ours.append(error)
            chosen.append(choice)
            theirs.append(boosting(split, seed))
        results[name] = report(name, ours, theirs, time.perf_counter() - began)
        print("    chosen:", {each: chosen.count(each) for each in CHOICES}, flush=True)
    reached = sum(each["reached"] for each in results.values())
    print(f"{reached} of {len(results)} sets: no worse than MC dropout by more than one standard error")
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=2))


def report(name: str, ours: list[float], theirs: list[float], seconds: float) -> dict[str, Any]:
    pbp, dropout = PUBLISHED[name]
    mean, error = float(np.mean(ours)), float(np.std(ours, ddof=1) / math.sqrt(len(ours)))
    boosted, other = float(np.mean(theirs)), float(np.std(theirs, ddof=1) / math.sqrt(len(theirs)))
    reached = mean <= dropout[0] + max(error, dropout[1] / math.sqrt(PUBLISHED_SPLITS))
    print(
        f"{name:24} mlp {mean:.4g} +- {error:.2g}   boosting {boosted:.4g} +- {other:.2g}   PBP {pbp[0]} +- {pbp[1]}   "
        f"MC dropout {dropout[0]} +- {dropout[1] / math.sqrt(PUBLISHED_SPLITS):.2f}   "
        f"{'reached' if reached else 'missed'}   ({len(ours)} splits, {seconds:.0f} s)",
        flush=True,
    )
    return {"mlp": [mean, error], "boosting": [boosted, other], "splits": len(ours), "reached": reached}


if __name__ == "__main__":
    main()
