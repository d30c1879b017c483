"""The whole way of time series in a file: train, compare, evaluate, forecast and predict on the command line."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.runs.data import new_rows
from deepcanon.runs.folder import RunFolder
from tests.processes import done, killed

Call = Callable[..., Any]

LEVELS = {"north": 100.0, "south": 3.0, "west": 2000.0}
READING = ("--time", "date", "--target", "sales", "--series", "store", "--covariates", "offer", "--horizon", 7)
SMALL = ("--units", 4, "--layers", 1)
START = date(2024, 1, 1)


def rows_of(store: str, first: int, end: int, known: int = 0) -> list[str]:
    """The rows of a store from one day to another, and so many after them without sales."""

    def sales(step: int) -> str:
        return f"{LEVELS[store] * (1 + 0.4 * math.sin(2 * math.pi * step / 7)):.4f}" if step < end else ""

    days = range(first, end + known)
    return [f"{store},{START + timedelta(days=i)},{sales(i)},{'yes' if i % 11 == 0 else 'no'}" for i in days]


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["store,date,sales,offer", *rows]) + "\n")
    return path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [row for store, end in (("north", 90), ("south", 80), ("west", 90)) for row in rows_of(store, 0, end)]
    return write(tmp_path_factory.mktemp("sales") / "sales.csv", *rows)


@pytest.fixture(scope="module")
def run(sales: Path, call: Call) -> Path:
    folder = sales.parent / "run"
    trained = call("train", "deepar", "--data", sales, *READING, *SMALL, "--steps", 3, "--out", folder, "--threads", 1)
    assert trained.code == 0, trained.stderr
    assert "3 time series of 80 to 90 steps, 1 day apart, from 2024-01-01 to 2024-03-30" in trained.stdout
    assert "in units of the standard deviation of each series" in " ".join(trained.stdout.split())
    return folder


QUANTILES = ["q0.05", "q0.1", "q0.25", "q0.5", "q0.75", "q0.9", "q0.95"]


@pytest.mark.slow
def test_predictions_go_on_after_the_end_of_a_new_file_in_its_units(run: Path, tmp_path: Path, call: Call) -> None:
    new = write(tmp_path / "new.csv", *rows_of("west", 100, 130, known=7), *rows_of("south", 130, 131, known=9))
    written = call("predict", run, "--data", new, "--out", tmp_path / "p.csv", "--json")
    assert written.code == 0, written.stderr
    assert written.json["rows"] == 14
    rows = table(tmp_path / "p.csv")
    assert list(rows[0]) == ["store", "step", "date", "mean", *QUANTILES]
    for store, end in (("west", 130), ("south", 131)):
        found = [row for row in rows if row["store"] == store]
        assert [row["date"] for row in found] == [str(START + timedelta(days=end + step)) for step in range(7)]
        assert [row["step"] for row in found] == list("1234567")
        for row in found:
            quantiles = [float(row[name]) for name in QUANTILES]
            assert quantiles == sorted(quantiles)
            assert 0.1 < float(row["q0.5"]) / LEVELS[store] < 3
    same = call("forecast", run, "--data", new, "--out", tmp_path / "f.csv", "--json")
    assert same.json["series"] == 2
    assert (tmp_path / "f.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
    assert call("forecast", run, "--data", new, "--samples", 5, "--out", tmp_path / "f.png").code == 0
    assert (tmp_path / "f.png").stat().st_size > 10_000
    shown = call("forecast", run, "--data", new, "--steps", 1, "--samples", 5)
    assert "2024-05-10" in shown.stdout


@pytest.mark.slow
def test_the_runs_own_test_split_is_forecast_with_its_truth(run: Path, tmp_path: Path, call: Call) -> None:
    assert call("forecast", run, "--samples", 5, "--out", tmp_path / "f.csv").code == 0
    rows = [row for row in table(tmp_path / "f.csv") if row["store"] == "west"]
    assert [row["date"] for row in rows] == [str(START + timedelta(days=step)) for step in range(83, 90)]
    for step, row in enumerate(rows, start=83):
        truth = LEVELS["west"] * (1 + 0.4 * math.sin(2 * math.pi * step / 7))
        assert float(row["truth"]) == pytest.approx(truth, abs=1e-3)
    refused = call("predict", run, "--out", tmp_path / "p.csv")  # after its end, nothing is known of the offers
    assert refused.code == 2
    assert "offer must be known of the 7 steps to forecast" in refused.stderr
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.slow
def test_the_end_of_a_new_file_is_what_forecasts_are_compared_with(run: Path, tmp_path: Path, call: Call) -> None:
    new = write(tmp_path / "new.csv", *rows_of("west", 100, 130), *rows_of("south", 120, 131))
    measured = call("evaluate", run, "--data", new, "--json")
    assert measured.code == 0, measured.stderr
    opened: Any = dc.Run(run)
    batch: Any = new_rows(opened.folder, opened.model, str(new))
    assert batch.origins.tolist() == [14, 4]
    assert (batch.lengths - batch.origins).tolist() == [7, 7]
    with torch.no_grad():
        nll = -float(opened.model.step_log_probs(batch).sum() / 14)
    assert measured.json["test"]["nll"] == pytest.approx(nll, rel=1e-5)


@pytest.mark.slow
def test_models_are_compared_and_looked_into_on_a_file_of_series(sales: Path, tmp_path: Path, call: Call) -> None:
    short = (*READING, "--budget", 0.5)
    compared = call("compare", "deepar:units=4,layers=1", "--data", sales, *short, "--out", tmp_path / "c", "--json")
    assert compared.code == 0, compared.stderr
    (folder,) = (tmp_path / "c").glob("deepar*/seed-0")
    opened: Any = dc.Run(folder)
    measured = json.loads((tmp_path / "c" / "compare.json").read_text())["runs"][0]["measured"]
    scales = [row[0] for row in opened.data.test.legend.scales]
    in_units = -opened.scores["test"]["nll"] - sum(map(math.log, scales)) / 3
    assert measured["likelihood"]["nats"] == pytest.approx(in_units, rel=1e-6)
    seen = call("microscope", "deepar", "--data", sales, *READING, "--out", tmp_path / "g.html")
    assert seen.code == 0, seen.stderr


@pytest.mark.slow
def test_killed_and_resumed_it_ends_with_the_same_bits(sales: Path, tmp_path: Path) -> None:
    words = ("train", "deepar", "--data", sales, *READING, *SMALL, "--steps", 6, "--checkpoint-every", 2,
             "--no-evaluate", "--no-pictures", "--threads", 1)  # fmt: skip
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    done(*words, "--out", unbroken)
    killed(*words, "--out", broken, step=4)
    done("resume", broken)
    ours, wanted = (RunFolder.open(folder).read_weights() for folder in (broken, unbroken))
    assert ours.keys() == wanted.keys()
    assert all(torch.equal(value, wanted[name]) for name, value in ours.items())


@pytest.mark.slow
def test_in_python_it_is_one_line(sales: Path, tmp_path: Path) -> None:
    opened = dc.Run.train(
        "deepar:units=4,layers=1", sales, time="date", target="sales", series="store", horizon=7, steps=2,
        out=tmp_path / "run", quiet=True, pictures=False, evaluate=False,
    )  # fmt: skip
    columns = opened.predict()
    assert columns["date"][:2] == ["2024-03-31", "2024-04-01"]
    assert columns["store"][::7] == ["north", "south", "west"]
    assert opened.data.train.legend == dc.data.of(
        sales, time="date", target="sales", series="store", horizon=7
    ).train.legend  # fmt: skip


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("west,2024-03-01,5,no", "goes back"),
        ("west,2024-03-33,5,no", "a time was expected"),
        ("west,2024-04-02,5,no", "lacks 2 steps, the first 2024-03-31"),
        ("west,2024-03-31,five,no", "a number was expected, got 'five'"),
        ("west,2024-03-31", "has 2 values, but there are 4 columns"),
    ],
)
def test_bad_rows_end_in_a_sentence_and_nothing_is_written(
    sales: Path, tmp_path: Path, call: Call, row: str, says: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(sales.read_text() + row + "\n")
    refused = call("train", "deepar", "--data", path, *READING, "--out", tmp_path / "run")
    assert refused.code == 2
    assert says in refused.stderr
    assert f"{path}, line 262" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_table_says_how_it_becomes_series(sales: Path, tmp_path: Path, call: Call) -> None:
    refused = call("train", "deepar", "--data", sales, "--out", tmp_path / "run")
    assert refused.code == 2
    assert "unless --time names the column that says when they are" in refused.stderr
