"""Parquet and Feather files are read as the CSV file of the same columns is."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

import deepcanon as dc
from deepcanon.core import DataError
from deepcanon.data.tables.csv_file import read
from tests.data.text.test_labeled_text import call, refused


def table(count: int = 60) -> pa.Table:
    draw = random.Random(0)
    return pa.table(
        {
            "size": [draw.gauss(5, 2) if row % 7 else None for row in range(count)],
            "count": [draw.randint(0, 9) for _ in range(count)],
            "color": pa.array([draw.choice(["red", "dark green", "blue"]) for _ in range(count)]).dictionary_encode(),
            "new": [draw.random() < 0.5 for _ in range(count)],
            "price": [draw.gauss(100, 20) for _ in range(count)],
        }
    )


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
@pytest.mark.parametrize("target", [None, "price", "color", "count"])
def test_a_file_gives_what_a_csv_file_of_it_gives(tmp_path: Path, suffix: str, target: str | None) -> None:
    rows = table()
    write: Any = parquet.write_table if suffix == "parquet" else feather.write_feather
    write(rows, tmp_path / f"rows.{suffix}")
    arrow_csv.write_csv(rows, tmp_path / "rows.csv")
    reading: Any = {} if target is None else {"target": target}
    ours, wanted = (dc.load_data(tmp_path / f"rows.{each}", **reading) for each in (suffix, "csv"))
    assert ours.fingerprint() == wanted.fingerprint()
    assert ours.preprocessing == wanted.preprocessing
    assert ours.labels == wanted.labels


def test_dates_are_written_as_in_iso_8601(tmp_path: Path) -> None:
    day, moment = datetime.datetime(2020, 2, 29), datetime.datetime(2020, 2, 29, 13, 5, 7)
    columns = {
        "day": pa.array([day, None], pa.timestamp("ns")),
        "date": pa.array([day.date()] * 2),
        "moment": pa.array([day, moment], pa.timestamp("ms")),
        "zone": pa.array([moment, None], pa.timestamp("us", "UTC")),
    }
    parquet.write_table(pa.table(columns), tmp_path / "dates.parquet")
    file = read(tmp_path / "dates.parquet")
    found = {name: [file.text(row, name) for row in (0, 1)] for name in columns}
    assert found == {
        "day": ["2020-02-29", ""],
        "date": ["2020-02-29"] * 2,
        "moment": ["2020-02-29 00:00:00", "2020-02-29 13:05:07"],
        "zone": ["2020-02-29 13:05:07Z", ""],
    }


@pytest.mark.slow
def test_the_whole_way_of_a_user(tmp_path: Path) -> None:
    path, new, out = tmp_path / "rows.parquet", tmp_path / "new.parquet", tmp_path / "out.csv"
    parquet.write_table(table(), path)
    parquet.write_table(table(8).drop(["price"]), new)
    call("train", "mlp", "--data", path, "--target", "price", "--epochs", 2, "--out", tmp_path / "run")
    call("evaluate", tmp_path / "run")
    call("predict", tmp_path / "run", "--data", new, "--out", out)
    assert len(out.read_text().splitlines()) == 9


def test_bad_files_are_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"not this")
    assert "bad.parquet cannot be read as Parquet" in refused("train", "mlp", "--data", path, "--target", "y")
    for columns, words in (
        ({"a": [[1], [2]]}, "column 'a' holds list<.*>; columns are numbers, texts, dates or booleans"),
        ({"a": pa.array([], pa.int64())}, "has 1 columns and no rows"),
        ({"a": [1.0, float("inf")] * 5}, "row 2, column 'a': a number was expected, got 'inf'"),
    ):
        parquet.write_table(pa.table(columns), path)
        with pytest.raises(DataError, match=words):
            dc.load_data(path)
    with pytest.raises(DataError, match="there is no file"):
        dc.load_data(tmp_path / "gone.parquet")
