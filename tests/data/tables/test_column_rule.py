"""What each column of a table is taken for: by the written rule, or as the user says."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepcanon.core import DataError, UsageError
from deepcanon.data import load_data
from deepcanon.data.tables.column_rule import choose, parse_kinds
from deepcanon.data.tables.csv_file import read
from deepcanon.data.tables.table import apply

ROWS = 60
RANDOM = np.random.default_rng(0)


def write(path: Path, **columns: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def noise(count: int = ROWS) -> list[float]:
    return [round(value, 3) for value in RANDOM.normal(size=count).tolist()]


def words(count: int) -> list[str]:
    return [f"the {row}th of many notes on this" for row in range(count)]


@pytest.mark.parametrize(
    ("name", "values", "kind", "why"),
    [
        ("x", noise(), "number", ""),
        ("age", [20 + row % 7 for row in range(ROWS)], "number", ""),
        ("x", list(range(ROWS)), "drop", "it counts the rows"),
        ("x", list(range(1, ROWS + 1)), "drop", "it counts the rows"),
        ("customerID", RANDOM.permutation(10_000)[:ROWS].tolist(), "drop", "all values differ"),
        ("order no", RANDOM.permutation(10_000)[:ROWS].tolist(), "drop", "all values differ"),
        ("amount", RANDOM.permutation(10_000)[:ROWS].tolist(), "number", ""),
        ("paid", RANDOM.permutation(10_000)[:ROWS].tolist(), "number", ""),
        ("shop_id", [7 + row % 3 for row in range(ROWS)], "category", "a code by its name"),
        ("zip", [10115, 20095, 50667] * 20, "category", "a code by its name"),
        ("id", noise(), "number", ""),
        ("name", [f"Mr {row}" for row in range(ROWS)], "drop", "all values differ"),
        ("name", [f"Mr {min(row, 99 - row)}" for row in range(ROWS)], "drop", "50 different values in 60 rows"),
        ("note", words(ROWS), "drop", "free text"),
        ("color", ["red", "blue"] * 30, "category", ""),
        ("member", ["yes", "no"] * 30, "category", ""),
        ("size", ["1", "2", "3+"] * 20, "category", ""),
        ("when", [f"2024-0{1 + row % 9}-11" for row in range(ROWS)], "date", ""),
        ("when", ["03/04/2024", "01/02/2024"] * 30, "drop", "its dates do not tell the day from the month"),
        ("x", [""] * ROWS, "drop", "it has no value"),
        ("income", [f"{1013 + 37 * row:,}" for row in range(ROWS)], "drop",
         "its values look like numbers written with thousands separators ('1,013'); write them as 1013"),
        ("income", [f"{713 + 37 * row:,}" for row in range(ROWS)], "drop",
         "its values look like numbers written with thousands separators ('1,009'); write them as 1009"),
        ("share", [f"{31 + row % 7}%" for row in range(ROWS)], "category",
         "its values look like numbers written with percent signs ('31%'); write them as 31"),
        ("temperature", [f"{39 + row},5" for row in range(ROWS)], "drop",
         "its values look like numbers written with decimal commas ('39,5'); write them as 39.5"),
        ("price", [f"${5 + row}.50" for row in range(ROWS)], "drop",
         "its values look like numbers written with a currency ('$5.50'); write them as 5.50"),
        ("size", ["1", "2", "many"] * 20, "category", ""),
        ("shop_id", [str(row % 15) if row else "head" for row in range(ROWS)], "category", ""),
    ],
)  # fmt: skip
def test_the_rule(name: str, values: list[Any], kind: str, why: str, tmp_path: Path) -> None:
    file = read(write(tmp_path / "a.csv", **{name: values, "other": noise()}))
    chosen = choose(file, None, {})
    assert chosen[name].kind == kind
    assert chosen[name].why.startswith(why)
    assert bool(chosen[name].why) == bool(why)
    assert not (chosen[name].names_rows and "look like numbers" in why)
    assert chosen["other"].kind == "number"


def test_a_numeric_id_does_not_leak_the_class(tmp_path: Path) -> None:
    """In a file that is sorted by class, the number of a row says which it is."""
    path = write(tmp_path / "a.csv", id=range(1, 101), x=noise(100), y=["a"] * 50 + ["b"] * 50)
    data = load_data(path, target="y")
    assert data.sizes == {"features": 1, "classes": 2}
    assert any("Dropped: id (it counts the rows)" in remark for remark in data.remarks)
    assert load_data(path, target="y", column="id=number").sizes["features"] == 2


def test_rows_are_counted_where_nothing_else_is_left(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", year=range(1950, 2010), y=noise())
    assert load_data(path, target="y").preprocessing["columns"][0]["name"] == "year"


def test_what_the_user_says_holds(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", age=[20 + row % 7 for row in range(ROWS)], name=[f"Mr {row}" for row in range(ROWS)],
        code=[1, 2, 3] * 20, x=noise(), y=[1, 2, 3, 4] * 15,
    )  # fmt: skip

    def kinds(**reading: Any) -> dict[str, str]:
        saved = load_data(path, **reading).preprocessing
        columns = [*saved["columns"], saved["target"]]
        return {column["name"]: column["kind"] for column in columns if column}

    assert kinds(target="y") == {"age": "number", "code": "category", "x": "number", "y": "category"}
    assert kinds(target="y", column={"age": "category", "code": "number", "name": "category", "y": "number"}) == {
        "age": "category", "name": "category", "code": "number", "x": "number", "y": "number"
    }  # fmt: skip
    assert kinds(target="y", column=("age=category,x=drop",), drop="code") == {"age": "category", "y": "category"}
    assert kinds(target="y", drop=["age", "code"]) == {"x": "number", "y": "category"}


def test_numbers_as_people_read_them_are_said_before_a_training(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", income=[f"{1013 + 37 * row:,}" for row in range(ROWS)],
        share=[f"{31 + row % 7}%" for row in range(ROWS)], x=noise(), y=["a", "b"] * 30,
    )  # fmt: skip
    said = " ".join(load_data(path, target="y").remarks)
    assert "Dropped: income (its values look like numbers written with thousands separators ('1,013')" in said
    assert "Taken as categories: share (its values look like numbers written with percent signs ('31%')" in said
    with pytest.raises(DataError, match=r"the target 'income' would be 60 classes: .* write them as 1013, or say"):
        load_data(path, target="income")


@pytest.mark.parametrize("different", [10, 15, 40])
def test_a_text_among_numbers_is_an_error_with_its_line(different: int, tmp_path: Path) -> None:
    ages = [str(20 + row % different) for row in range(ROWS)]
    ages[-3] = "old"
    path = write(tmp_path / "a.csv", age=ages, x=noise(), y=["a", "b"] * 30)
    with pytest.raises(DataError, match=r"line 59, column 'age': .* numbers, but 'old' is none; .* 'age=category'"):
        load_data(path, target="y")
    assert load_data(path, target="y", column="age=category").sizes["classes"] == 2


def test_the_only_text_in_many_rows_is_an_error_but_a_category_of_several_is_none(tmp_path: Path) -> None:
    stars = [str(1 + row % 5) for row in range(120)]
    path = write(tmp_path / "a.csv", stars=[*stars[:-1], "five"], x=noise(120))
    with pytest.raises(DataError, match="line 121, column 'stars': the column holds numbers, but 'five' is none"):
        choose(read(path), None, {})
    path = write(tmp_path / "b.csv", stars=[*stars[:-2], "5+", "5+"], x=noise(120))
    assert choose(read(path), None, {})["stars"].kind == "category"


def test_a_target_that_is_no_class_is_refused(tmp_path: Path) -> None:
    days = [f"2024-{1 + row % 12:02}-{1 + row % 28:02}" for row in range(ROWS)]
    names = [f"Mr {row}" for row in range(ROWS)]
    weights = [str(50 + row) for row in range(ROWS - 1)] + ["heavy"]
    path = write(tmp_path / "a.csv", x=noise(), visit=days, name=names, weight=weights)
    for target, problem in (
        ("visit", "the target 'visit' holds dates .* days since a fixed date, or say --column 'visit=category'"),
        ("name", "the target 'name' has 60 different texts in 60 rows, too many to be classes; take another"),
        ("weight", "line 61, column 'weight': the column holds numbers, but 'heavy' is none"),
    ):
        with pytest.raises(DataError, match=problem):
            load_data(path, target=target, drop=[each for each in ("weight",) if each != target])
    with pytest.raises(DataError, match="too few rows for its classes"):
        load_data(path, target="name", column="name=category", drop="weight")


def test_wrong_words_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", age=noise(), word=["a", "b"] * 30, y=["a", "b"] * 30)
    assert parse_kinds("a=number,b=drop") == {"a": "number", "b": "drop"}
    for reading, problem in (
        ({"column": "age=numeric"}, r"NAME=number\|category\|date\|drop; got 'age=numeric'"),
        ({"column": "age"}, "got 'age'"),
        ({"column": "ages=number"}, r"has no column 'ages'; did you mean age\?"),
        ({"drop": "ages"}, r"has no column 'ages'; did you mean age\?"),
        ({"group": "ages"}, r"has no column 'ages'"),
        ({"column": "y=drop"}, "'y' is the target, a number or a category; it cannot be drop"),
        ({"column": "word=number"}, "column 'word': a number was expected, got '[ab]'"),
        ({"column": "word=date"}, "column 'word' was to hold dates, but not in one form that is read"),
        ({"drop": "age,word"}, "has nothing to learn from besides the target 'y'"),
        ({"group": "word", "split_by": "age"}, "split by group or in the order of a column"),
    ):
        with pytest.raises(UsageError, match=problem):
            load_data(path, target="y", **reading)  # type: ignore[arg-type]


def test_dates_of_new_rows_must_be_dates(tmp_path: Path) -> None:
    days = [f"2024-{1 + row % 12:02}-{1 + row % 28:02}" for row in range(ROWS)]
    data = load_data(write(tmp_path / "a.csv", when=days, y=["a", "b"] * 30), target="y")
    new = write(tmp_path / "b.csv", when=["2024-01-01", "soon"], y=["a", "b"])
    with pytest.raises(DataError, match="line 3, column 'when': a date was expected, got 'soon'"):
        apply(new, data.preprocessing)
