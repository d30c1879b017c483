"""Half precision ends where full precision ends, up to the noise of the seeds."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core.settings import Precision

SEEDS = range(3)


def outcomes(name: str, data: str, precision: Precision, **arguments: Any) -> list[float]:
    results = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = dc.find(name)(features=64, **arguments)
        fitted = dc.fit(model, dc.load_data(data), quiet=True, seed=seed, epochs=10, precision=precision)
        results.append(fitted.test["nll"])
    return results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "arguments"),
    [("mlp", "digits", {"classes": 10}), ("vae", "digits:binary", {"likelihood": "bernoulli"})],
)
def test_bf16_ends_within_the_noise_of_seeds(name: str, data: str, arguments: dict[str, Any]) -> None:
    full = outcomes(name, data, "fp32", **arguments)
    half = outcomes(name, data, "bf16", **arguments)
    assert full != half, "bf16 must change something"
    assert abs(statistics.mean(half) - statistics.mean(full)) < statistics.stdev(full)
