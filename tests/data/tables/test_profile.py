"""The profile of a table says what each column holds and becomes; a training begins with what is not plain of it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.data.load import profile_of
from deepcanon.data.tables.profile import WIDTH, spark


def customers(path: Path, rows: int = 400) -> Path:
    """A table with an index, an id, a date, missing numbers, a heavy tail, a boolean, a free text and rare classes."""
    random = np.random.default_rng(0)
    header = ["", "customerID", "since", "age", "income", "zip", "member", "note", "churn"]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        for row in range(rows):
            age: Any = "" if row % 25 == 0 else int(random.integers(18, 80))
            writer.writerow([
                row, f"C-{random.integers(10**9)}", f"2021-{1 + row % 12:02}-{1 + row % 28:02}", age,
                round(float(random.lognormal(10, 1.3)), 2), [10115, 20095, 50667][row % 3], ["yes", "no"][row % 2],
                f"the customer called for the {row}th time", "yes" if row % 16 == 3 else "no",
            ])  # fmt: skip
    return path


def test_every_column_is_described(tmp_path: Path) -> None:
    found = profile_of(customers(tmp_path / "a.csv"), target="churn")
    assert found.rows == {"train": 280, "valid": 40, "test": 80}
    said = {column.name: column for column in found.columns}
    assert list(said) == ["column 1", "customerID", "since", "age", "income", "zip", "member", "note", "churn"]
    assert said["column 1"].says == "dropped: it counts the rows"
    assert said["customerID"].says == "dropped: all values differ"
    assert said["note"].says == "dropped: free text"
    assert said["since"].says == "date, 2021-01-01 to 2021-12-28, becomes days, and the time of year and week"
    assert said["age"].says.startswith("number, median ")
    assert said["age"].says.endswith("4 % missing, filled with the median and flagged")
    assert said["age"].missing == 0.04
    assert "heavy tail, bent by arsinh at" in said["income"].says
    assert said["zip"].says == "category, 3 values: 10115 34 %, 20095 33 %, 50667 33 %, a code by its name"
    assert said["member"].says == "boolean, 2 values: yes 50 %, no 50 %"
    assert said["churn"].says == "the target, classes, 2 values: no 94 %, yes 6 %"
    assert {name: column.features for name, column in said.items() if column.features} == {
        "since": 5, "age": 2, "income": 1, "zip": 3, "member": 2, "churn": 2
    }  # fmt: skip
    assert all(len(column.picture) <= WIDTH for column in found.columns)
    assert said["member"].picture == "██"


def test_a_training_hears_what_is_not_plain(tmp_path: Path) -> None:
    data = load_data(customers(tmp_path / "a.csv"), target="churn")
    assert data.remarks == profile_of(tmp_path / "a.csv", target="churn").says
    first, *rest = data.remarks
    assert first == (
        f"{tmp_path / 'a.csv'}: 400 rows (280 train, 40 valid, 80 test); 2 numbers, 2 categories, 1 date give "
        "13 features to predict churn."
    )
    assert rest == [
        "Dropped: column 1 (it counts the rows), customerID (all values differ), note (free text).",
        "Missing values, filled with the median and flagged: age (4 %).",
        "Heavy tails, bent by arsinh: income.",
        "Dates: since (days, and the time of year and week).",
        "Codes, taken as categories: zip.",
        "The classes of churn are imbalanced ('no' 94 % and 'yes' 6 % of the rows): train --class-weight balanced "
        "makes the rare ones count as much.",
    ]
    assert load_data(tmp_path / "a.csv", target="churn", preprocessing=data.preprocessing).remarks == ()


def test_of_a_wide_table_not_all_is_said(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    names = [f"column{place}" for place in range(200)]
    rows = [["" if random.random() < 0.4 else f"{value:.2f}" for value in random.normal(size=200)] for _ in range(40)]
    (tmp_path / "a.csv").write_text("\n".join([",".join(names), *map(",".join, rows)]) + "\n")
    remarks = load_data(tmp_path / "a.csv").remarks
    assert len(remarks) == 2
    assert remarks[1].endswith("and 188 more.")


def test_bars_are_the_histogram() -> None:
    assert spark([8, 4, 1, 0]) == "█▄▁ "
    assert spark([]) == ""
    assert spark([0, 0]) == "  "


def test_a_profile_is_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word " * 100)
    with pytest.raises(UsageError, match=r"a profile is of the columns of a table; .* gives text"):
        profile_of(tmp_path / "a.txt")
