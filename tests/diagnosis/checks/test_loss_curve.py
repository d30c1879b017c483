from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deepcanon as dc
from deepcanon.diagnosis.admission import admit
from deepcanon.diagnosis.doctor import examine
from deepcanon.diagnosis.health_report import Report
from deepcanon.diagnosis.run_ends import end_of, start_of
from deepcanon.diagnosis.vital_signs import shape_of


def examined(folder: Path, *checks: str, **settings: Any) -> Report:
    options: dict[str, Any] = {"epochs": 10, "quiet": True, "pictures": False, "evaluate": False, **settings}
    dc.Run.train("mlp:hidden=32", "digits", out=folder, **options)
    return examine(admit(folder), only=checks or ["loss_curve"])


def test_the_curve_of_a_healthy_run_is_left_alone(tmp_path: Path) -> None:
    report = examined(tmp_path / "run")
    assert list(report) == []
    assert report.passed["loss_curve"]["progress"] > 0.5


@pytest.mark.slow
def test_a_run_that_hardly_moved_is_seen(tmp_path: Path) -> None:
    report = examined(tmp_path / "run", lr=1e-6)
    said = [finding.cause for finding in (*report, *report.suspicions)]
    assert said in (["learning rate too low"], ["bottleneck/underfitting"])  # ten times the rate is still low


def test_a_model_without_a_log_is_not_examined() -> None:
    report = examine(admit("mlp", "digits"), only=["loss_curve"])
    assert "not a run" in report.skipped["loss_curve"]


def test_both_ends_of_a_run(tmp_path: Path) -> None:
    run = dc.Run.train("mlp:hidden=8", "digits", out=tmp_path / "run", epochs=1, seed=3, quiet=True, pictures=False)
    start, end = start_of(run), end_of(run)
    again = start_of(run)
    assert end is not None
    weights = [dict(model.named_parameters())["net.0.weight"] for model in (start, again, end)]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])
    (run.dir / "model.safetensors").unlink()
    last = end_of(dc.Run(run.dir))  # that of the last checkpoint
    assert last is not None


def test_the_shape_of_a_curve() -> None:
    falling = shape_of([100.0 - i for i in range(100)])
    assert falling["progress"] == pytest.approx(90 / 95.5)
    assert falling["rise"] == 0
    assert falling["peak"] == 0
    rising = shape_of([1.0 + i for i in range(100)])
    assert rising["progress"] < 0 < rising["peak"]
    assert shape_of([1.0] * 5) == {}
