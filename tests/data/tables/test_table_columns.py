"""Columns of a table: heavy tails, dates and rare categories as features, and back."""

from __future__ import annotations

import csv
import json
import math
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import skew

from deepcanon.core import DataError
from deepcanon.data import load_data, original_rows
from deepcanon.data.tables.table import apply, feature_scales, log_det_of_scaling


def write(path: Path, **columns: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def column_of(preprocessing: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(column for column in preprocessing["columns"] if column["name"] == name)
    return found


def test_a_heavy_tail_is_bent_where_there_is_a_target(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    income, height = random.lognormal(10, 1.5, 400), random.normal(170, 10, 400)
    path = write(tmp_path / "a.csv", income=income, height=height, y=["a", "b"] * 200)
    data = load_data(path, target="y")
    saved = json.loads(json.dumps(data.preprocessing))
    x, bend = apply(path, saved).x.double().numpy(), column_of(saved, "income")["bend"]
    assert abs(skew(income)) > 3
    assert np.quantile(income, 0.4) < bend < np.quantile(income, 0.6)
    assert np.corrcoef(x[:, 0], np.arcsinh(income / bend))[0, 1] == pytest.approx(1)
    assert abs(skew(x[:, 0])) < abs(skew(income)) / 3
    assert data.train.x[:, 0].double().std(correction=0).item() == pytest.approx(1, abs=1e-5)
    assert "bend" not in column_of(saved, "height")
    assert "Heavy tails, bent by arsinh: income." in data.remarks
    assert original_rows(torch.from_numpy(x), saved)["income"] == pytest.approx(income, rel=1e-4)
    assert "bend" not in column_of(load_data(path).preprocessing, "income"), (
        "a density is one of the units of the table"
    )


def test_units_do_not_change_how_a_tail_is_bent(tmp_path: Path) -> None:
    income = np.random.default_rng(0).lognormal(0, 1.5, 400)
    one, other = (
        load_data(write(tmp_path / f"{unit}.csv", x=(income * unit), y=["a", "b"] * 200), target="y").train.x
        for unit in (1, 1024)
    )
    assert torch.allclose(one, other, atol=1e-6)


def test_densities_are_given_in_the_units_of_the_table(tmp_path: Path) -> None:
    """The log-determinant of the scaling is the derivative by finite differences, of bent columns in each row."""
    random = np.random.default_rng(0)
    path = write(tmp_path / "a.csv", a=random.lognormal(3, 1.5, 300), b=random.normal(5, 2, 300), y=["a", "b"] * 150)
    saved = load_data(path, target="y").preprocessing
    rows = np.array([[0.5, 1.0], [20.0, 3.0], [900.0, 7.0]])

    def features(table: Any) -> Any:
        return apply(write(tmp_path / "new.csv", a=table[:, 0], b=table[:, 1]), saved).x.double().numpy()

    step = np.array([0.01, 0.01]) * np.abs(rows)
    slopes = (features(rows + step) - features(rows - step)) / (2 * step)
    found = log_det_of_scaling(saved, torch.from_numpy(features(rows)))
    np.testing.assert_allclose(found.numpy(), np.log(slopes).sum(1), atol=1e-3)
    bent, plain = (column_of(saved, name) for name in "ab")
    assert feature_scales(saved) == pytest.approx((bent["std"] * bent["bend"], plain["std"]))


def test_a_date_is_its_days_and_its_place_in_the_year_and_the_week(tmp_path: Path) -> None:
    first = date(2021, 1, 1)
    dates = [first + timedelta(days=13 * row % 1000) for row in range(120)]
    texts = ["" if row % 10 == 3 else f"{day}" for row, day in enumerate(dates)]
    path = write(tmp_path / "a.csv", when=texts, y=["a", "b"] * 60)
    data = load_data(path, target="y")
    saved = json.loads(json.dumps(data.preprocessing))
    x = apply(path, saved).x.double().numpy()
    assert x.shape[1] == 2 + 4
    there = [row for row, text in enumerate(texts) if text]
    ordinals = np.array([dates[row].toordinal() for row in there])
    assert np.corrcoef(x[there, 0], ordinals)[0, 1] == pytest.approx(1)
    weekday = np.array([dates[row].weekday() for row in there])
    np.testing.assert_allclose(x[there, 4], np.sin(2 * np.pi * weekday / 7), atol=1e-5)
    np.testing.assert_allclose(x[there, 5], np.cos(2 * np.pi * weekday / 7), atol=1e-5)
    turn = 2 * np.pi * (ordinals - date(1970, 1, 1).toordinal()) / 365.2425
    np.testing.assert_allclose(x[there, 2], np.sin(turn), atol=1e-5)
    gone = [row for row, text in enumerate(texts) if not text]
    assert (x[gone, 1] == 1).all()
    assert (x[gone, 2:] == 0).all()
    assert original_rows(torch.from_numpy(x), saved)["when"] == texts
    assert load_data(path).sizes == {"features": 2 + 2}, "without a target a date is one number"


def test_times_of_day_have_a_cycle(tmp_path: Path) -> None:
    texts = [f"2024-01-{1 + row % 28:02}T{row % 24:02}:00" for row in range(100)]
    path = write(tmp_path / "a.csv", when=texts, y=["a", "b"] * 50)
    data = load_data(path, target="y")
    x = apply(path, data.preprocessing).x.double().numpy()
    np.testing.assert_allclose(x[:, 5], [math.sin(2 * math.pi * (row % 24) / 24) for row in range(100)], atol=1e-5)


def test_rare_categories_share_a_feature_with_new_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"c{row % 40}" if row % 2 else f"r{row % 120}" for row in range(1200)]
    path = write(tmp_path / "a.csv", city=names, x=np.random.default_rng(0).normal(size=1200))
    data = load_data(path)
    saved = json.loads(json.dumps(data.preprocessing))
    city = column_of(saved, "city")
    assert (len(city["values"]), city["other"]) == (50, 30)
    assert {name for name in names if name.startswith("c")} <= set(city["values"])
    assert data.sizes == {"features": 50 + 1 + 1}
    new = apply(write(tmp_path / "b.csv", city=["c1", "elsewhere"], x=[0, 0]), saved).x
    assert new[1, :51].tolist() == [0.0] * 50 + [1.0]
    assert new[0, city["values"].index("c1")] == 1
    assert original_rows(new, saved)["city"] == ["c1", "other"]
    assert not capsys.readouterr().err


def groups(path: Path) -> Path:
    random = np.random.default_rng(0)
    patient = [f"p{row}" for row in random.integers(0, 30, 300)]
    days = [f"{date(2024, 1, 1) + timedelta(days=day)}" for day in random.integers(0, 300, 300).tolist()]
    return write(path, patient=patient, day=days, x=np.arange(300) / 7, y=random.choice(["a", "b"], 300))


def test_all_rows_of_a_group_are_in_one_split(tmp_path: Path) -> None:
    path = groups(tmp_path / "a.csv")
    data = load_data(path, target="y", group="patient", column={"day": "drop"})
    with path.open() as file:
        patient_of = {round(float(row["x"]), 3): row["patient"] for row in csv.DictReader(file)}
    column = column_of(data.preprocessing, "x")
    members = [
        {
            patient_of[round(value * column["std"] + column["mean"], 3)]
            for value in data.split(split).x[:, 0].double().tolist()
        }
        for split in ("train", "valid", "test")
    ]
    assert [len(split) for split in members] == [len(set.difference(split, *others)) for split, others in (
        (members[0], members[1:]), (members[1], [members[0], members[2]]), (members[2], members[:2])
    )]  # fmt: skip
    assert sum(map(len, members)) == 30
    counts = [len(data.split(split)) for split in ("train", "valid", "test")]
    assert sum(counts) == 300
    np.testing.assert_allclose(counts, [210, 30, 60], atol=12)
    again = load_data(path, preprocessing=data.preprocessing, group="patient", target="y", column={"day": "drop"})
    assert torch.equal(again.split("test").x, data.split("test").x)
    with pytest.raises(DataError, match="has 2 groups by 'y'; at least 3 are needed"):
        load_data(path, group="y")


def test_the_first_rows_by_a_column_train_and_the_last_are_the_test(tmp_path: Path) -> None:
    path = groups(tmp_path / "a.csv")
    data = load_data(path, target="y", split_by="day")
    place = [column["name"] for column in data.preprocessing["columns"]].index("day")
    assert place == 0 or data.preprocessing["columns"][0]["kind"] == "category"
    start = sum(len(c["values"]) for c in data.preprocessing["columns"][:place])
    spans = [
        (part.x[:, start].min().item(), part.x[:, start].max().item())
        for part in map(data.split, ("train", "valid", "test"))
    ]
    assert spans[0][1] <= spans[1][0] <= spans[1][1] <= spans[2][0]
    assert [len(data.split(split)) for split in ("train", "valid", "test")] == [210, 30, 60]
    with path.open("a") as file:
        file.write("p1,,1,a\n")
    with pytest.raises(
        DataError, match="line 302, column 'day': rows are split by this column, and here it is missing"
    ):
        load_data(path, target="y", split_by="day")


@pytest.mark.parametrize(("times", "length"), [([""], 10), (["T06:00", "T18:30"], 16)])
def test_sampled_dates_have_times_only_where_the_training_data_have(
    times: list[str], length: int, tmp_path: Path
) -> None:
    days = [f"2024-01-{1 + row % 28:02}{times[row % len(times)]}" for row in range(60)]
    data = load_data(write(tmp_path / "a.csv", when=days, x=np.random.default_rng(0).normal(size=60)))
    saved = json.loads(json.dumps(data.preprocessing))
    sampled = original_rows(torch.tensor([[0.1234, 0.0], [-0.777, 0.0]]), saved)["when"]
    assert [len(text) for text in sampled] == [length, length]
