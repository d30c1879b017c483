"""The whole way of time series on the command line: train, evaluate, forecast."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    folder = tmp_path_factory.mktemp("forecast") / "run"
    done = call("train", "deepar", "--units", 4, "--layers", 1, "--steps", 2, "--out", folder, "--json")
    assert done.code == 0, done.stderr
    assert done.json["data"] == "series"
    return folder


@pytest.mark.slow
def test_the_test_data_are_forecast_into_a_table(run: Path, tmp_path: Path, call: Call) -> None:
    done = call("forecast", run, "--steps", 24, "--samples", 20, "--out", tmp_path / "f.csv", "--json")
    assert done.json == {
        "run": str(run), "model": "deepar", "series": 240, "steps": 24, "out": str(tmp_path / "f.csv"),
    }  # fmt: skip
    with (tmp_path / "f.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 240 * 24
    assert all(float(row["q0.1"]) <= float(row["q0.5"]) <= float(row["q0.9"]) for row in rows)
    assert all(math.isfinite(float(row["truth"])) for row in rows)
    again = call("forecast", run, "--steps", 24, "--samples", 20, "--out", tmp_path / "again.csv")
    assert "forecasts of 240 series by deepar are in" in again.stdout
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "f.csv").read_bytes()


@pytest.mark.slow
def test_without_a_file_the_first_steps_are_shown(run: Path, call: Call) -> None:
    done = call("forecast", run, "--steps", 2, "--samples", 5)
    assert done.code == 0
    assert "q0.95" in done.stdout
    assert "456 further rows" in done.stdout


@pytest.mark.slow
def test_more_steps_than_there_are_covariates_are_refused_in_one_sentence(run: Path, call: Call) -> None:
    done = call("forecast", run, "--steps", 25, "--samples", 5)
    assert done.code == 2
    assert "needs the covariates of the 25 steps to come" in done.stderr


@pytest.mark.slow
def test_an_evaluation_gives_the_same_numbers_again(run: Path, call: Call) -> None:
    once, again = (call("evaluate", run, "--json").json for _ in range(2))
    assert once == again
    scores = once["results"]["test"] if "results" in once else once["test"]
    assert {"nll", "crps", "quantile_loss", "coverage"} <= set(scores)
