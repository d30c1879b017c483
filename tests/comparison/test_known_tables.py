"""Well-known tables through a comparison: models and baselines on one split, and plain words where a baseline wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import deepcanon as dc
from deepcanon.comparison.differences import told_apart
from deepcanon.data.sets.uci import YACHT
from deepcanon.data.tables.table import in_original_units

BOOSTING = "HistGradientBoosting (scikit-learn)"


def said_of_baselines(compared: Any) -> None:
    """Hold the sentence on the best baseline to the numbers."""
    (section,) = compared.sections
    model = next(row for row in section.ranked if not row.is_baseline)
    baseline = next(row for row in section.ranked if row.is_baseline)
    gap = section.difference(baseline, model, section.chooser)
    assert gap is not None
    page = compared.report.read_text()
    if not told_apart(gap):
        assert f"do not tell the best model, {model.label}, from the best baseline, {baseline.label}" in page
        return
    best, other = (baseline, model) if gap["difference"] < 0 else (model, baseline)
    group = "model" if best is baseline else "baseline"
    assert (
        f"{best.label} is better than every {group} here" in page or f"{best.label} is better than the {group}" in page
    )
    assert section.rows[0].label == best.label
    assert other.label in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["breast-cancer", "wine", "diabetes", "houses"])
def test_a_known_table_is_compared_on_and_the_better_side_is_named(name: str, tmp_path: Path) -> None:
    linear = "logistic" if name in ("breast-cancer", "wine") else "ridge"
    compared = dc.compare(["mlp"], name, tmp_path / "out", budget=2, baselines=["gradient_boosting", linear])
    assert not compared.failures
    said_of_baselines(compared)
    (section,) = compared.sections
    assert len(section.rows) == 3
    assert all(not section.no_better(row) for row in section.rows)


@pytest.mark.slow
def test_boosting_wins_on_steps_and_the_report_says_so(tmp_path: Path) -> None:
    compared = dc.compare(["linear_regression"], "houses", tmp_path / "out", baselines="gradient_boosting")
    (section,) = compared.sections
    assert section.rows[0].label == BOOSTING
    assert f"{BOOSTING} is better than the model linear_regression" in compared.report.read_text()


@pytest.mark.slow
@pytest.mark.skipif(not YACHT.remote.here(), reason="the UCI sets are not on this machine; set DEEPCANON_DATA")
def test_a_published_split_is_compared_on_in_the_units_of_its_target(tmp_path: Path) -> None:
    compared = dc.compare(["mlp"], "uci:boston:split=0", tmp_path / "out", budget=3, baselines="gradient_boosting")
    said_of_baselines(compared)
    data: Any = dc.load_data("uci:boston:split=0")
    x, held, rows = (part.x.double().numpy() for part in (data.train, data.valid, data.test))
    y, targets, true = (
        in_original_units(part.y.double(), data.preprocessing)[:, 0].numpy()
        for part in (data.train, data.valid, data.test)
    )
    boosted = HistGradientBoostingRegressor(max_iter=500, early_stopping=True, n_iter_no_change=20, random_state=0)
    error = np.sqrt(np.mean((boosted.fit(x, y, X_val=held, y_val=targets).predict(rows) - true) ** 2))
    (row,) = (row for row in compared.sections[0].rows if row.label == BOOSTING)
    assert row.measured[0]["targets"] is not None
    assert row.measured[0]["targets"]["rmse"] == pytest.approx(error, rel=0.02)
