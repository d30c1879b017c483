"""Measures of forecasts: a certain one has the absolute error as its CRPS, and baselines are measured as models are."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.comparison.baselines.registry import baselines_for
from deepcanon.comparison.forecasted import measure_forecasts
from deepcanon.comparison.job import run_jobs
from deepcanon.comparison.tables import sections
from deepcanon.core import Series
from deepcanon.losses import crps


class Certain:
    """A forecast of zeros, or of draws around them."""

    def __init__(self, spread: float) -> None:
        self.spread = spread

    def forecast(
        self, past: Series, steps: int, *, samples: int = 100, generator: Generator | None = None, context: Any = None
    ) -> Tensor:
        return self.spread * torch.randn(samples, len(past), steps, 1, generator=generator)


def test_of_a_certain_forecast_the_crps_is_the_absolute_error() -> None:
    x = torch.randn(70, 9, 1, generator=Generator().manual_seed(0))
    held_out = Series(x, torch.full((70,), 9), torch.full((70,), 5))
    found = measure_forecasts(Certain(0.0), held_out, seed=0)
    assert found is not None
    measures, each = found
    truth = x[:, 5:].double()
    assert measures["steps"] == 4
    assert measures["crps"] == pytest.approx(1.0)  # in units of the mean absolute value
    assert measures["mae"] == pytest.approx(float(truth.abs().mean()))
    assert measures["rmse"] == pytest.approx(float(truth.square().mean().sqrt()))
    assert torch.allclose(each, truth.abs().mean((1, 2)) / truth.abs().mean())
    drawn = measure_forecasts(Certain(1.0), held_out, seed=0)
    assert drawn is not None
    assert drawn[0]["covered"] == pytest.approx(0.8, abs=0.08)
    assert drawn[0]["crps"] < measures["crps"]
    sample = torch.randn(4000, 70, 4, 1, generator=Generator().manual_seed(1)).double()
    expected = float(crps(sample, truth).mean() / truth.abs().mean())
    assert drawn[0]["crps"] == pytest.approx(expected, rel=0.05)
    assert measure_forecasts(object(), held_out, 0) is None


@pytest.mark.slow
def test_forecasts_stand_in_a_table_of_their_own_beside_the_baselines(tmp_path: Path) -> None:
    candidates = [dc.blueprint("deepar:units=8,layers=1")]
    others = baselines_for("default", candidates, dc.load_data("series"))
    found = run_jobs(candidates, "series", tmp_path / "out", budget=1, baselines=others)
    assert all(entry["error"] is None for entry in found["runs"])
    forecasts, densities = sections(found)
    assert forecasts.question == "forecasts"
    assert {row.label for row in forecasts.rows} == {
        "deepar:units=8,layers=1",
        "seasonal naive",
        "exponential smoothing",
    }
    assert [row.label for row in densities.rows] == ["deepar:units=8,layers=1"]
    assert len([each for each in found["differences"] if each["measure"] == "crps"]) == 3
    day = next(entry for entry in found["runs"] if entry["label"] == "seasonal naive")
    assert day["measured"] is not None
    assert day["measured"]["weights"] == "a season of 24 steps"
    likelihood = next(entry["measured"] for entry in found["runs"] if not entry["baseline"])
    assert likelihood is not None
    assert "log_likelihood" in likelihood["examples"]


@pytest.mark.slow
def test_series_of_a_file_are_measured_in_its_units(tmp_path: Path) -> None:
    """A season of four days around 1,000 with noise of 20: the last season is off by that of two days."""
    random = np.random.default_rng(0)
    days = [f"{day:%Y-%m-%d}" for day in (date(2024, 1, 1) + timedelta(days=step) for step in range(200))]
    values = 1000 + np.tile([0.0, 300.0, -200.0, 50.0], 50) + 20 * random.normal(size=200)
    path = tmp_path / "sales.csv"
    path.write_text("day,sold\n" + "".join(f"{day},{value:.3f}\n" for day, value in zip(days, values, strict=True)))
    found = dc.compare(
        ["deepar:units=4,layers=1"], path, tmp_path / "out", budget=1, time="day", target="sold", horizon=8
    )
    naive = next(row for row in found.sections[0].rows if row.label == "seasonal naive")
    assert naive.measured[0]["weights"] in ("a season of 4 steps", "a season of 8 steps")
    forecasts = naive.measured[0]["forecasts"]
    assert forecasts is not None
    assert forecasts["rmse"] == pytest.approx(20 * 2**0.5, rel=0.4)
    assert 0 < forecasts["crps"] < 0.05  # in units of the mean, 1,000
    assert any("seasonal naive" in sentence or "exponential smoothing" in sentence for sentence in found.says)
