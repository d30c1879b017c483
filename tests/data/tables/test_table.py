"""Tables: what is fitted is fitted on the training split, is saved as JSON, and treats new rows alike."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from deepcanon.core import Batch, DataError, Labeled, UsageError
from deepcanon.data import in_original_units, load_data
from deepcanon.data.tables.table import apply

Rows = list[list[Any]]
HEADER = ["age", "color", "constant", "size", "bought", "price"]
COLORS = ["red", "green", "blue", ""]


def people(count: int = 200) -> Rows:
    """Rows with a number that is sometimes missing, a category that is sometimes missing, and two targets."""
    random = np.random.default_rng(0)
    rows: Rows = []
    for number in range(count):
        age = "" if random.random() < 0.1 else round(random.normal(40, 15), 2)
        color = COLORS[random.choice(4, p=[0.5, 0.3, 0.15, 0.05])]
        rows.append([age, color, 7, random.integers(1000), ["no", "yes"][number % 4 == 0], random.normal(1e4, 500)])
    return rows


def write(path: Path, rows: Rows, header: list[str] | None = None) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header or HEADER, *rows])
    return path


def without(rows: Rows, *names: str) -> tuple[Rows, list[str]]:
    keep = [place for place, name in enumerate(HEADER) if name not in names]
    return [[row[place] for place in keep] for row in rows], [HEADER[place] for place in keep]


def test_features_are_those_of_scikit_learn(tmp_path: Path) -> None:
    rows, header = without(people(), "price")
    path = write(tmp_path / "a.csv", rows, header)
    data = load_data(path, target="bought")
    everything = apply(path, data.preprocessing)
    trained = np.array([any(torch.equal(row, other) for other in data.train.x) for row in everything.x])
    assert trained.sum() == len(data.train)  # rows are all different, so these are the training rows

    numbers = np.array([[np.nan if row[0] == "" else row[0], row[2], row[3]] for row in rows], dtype=float)
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(numbers[trained])
    filled = imputer.transform(numbers)  # age, constant, size, age is missing
    scaler = StandardScaler().fit(filled[trained, :3])
    colors = np.array([[row[1]] for row in rows])
    one_hot = OneHotEncoder(sparse_output=False).fit(colors[trained])
    scaled = scaler.transform(filled[:, :3])
    expected = np.column_stack([scaled[:, 0], filled[:, 3], one_hot.transform(colors), scaled[:, 1], scaled[:, 2]])
    assert np.abs(everything.x.numpy() - expected).max() < 1e-6
    assert dict(data.sizes) == {"features": 8, "classes": 2}
    assert data.shape == (8,)


def test_the_split_is_stratified_and_loses_no_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", people())
    data = load_data(path, target="bought")
    parts = [data.split(name) for name in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [140, 20, 40]
    assert [part.y.bincount().tolist() for part in parts if isinstance(part, Labeled)] == [
        [105, 35],
        [15, 5],
        [30, 10],
    ]
    whole = apply(path, data.preprocessing).x
    assert torch.equal(torch.cat([part.x for part in parts]).sort(0).values, whole.sort(0).values)
    assert data.labels == ("no", "yes")
    assert data.target == "bought"


def test_only_the_training_part_is_fitted(tmp_path: Path) -> None:
    rows = people()
    before = load_data(write(tmp_path / "a.csv", rows), target="bought")
    # Change the numbers of one row of the test split.
    whole = apply(tmp_path / "a.csv", before.preprocessing).x
    (place,) = [number for number, row in enumerate(whole) if torch.equal(row, before.split("test").x[0])]
    rows[place][0], rows[place][3] = 1e6, 1e6
    after = load_data(write(tmp_path / "b.csv", rows), target="bought")
    assert after.preprocessing == before.preprocessing
    assert torch.equal(after.train.x, before.train.x)
    assert not torch.equal(after.split("test").x, before.split("test").x)


def test_saved_preprocessing_makes_a_round_trip(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", people())
    for target in ("bought", "price", None):
        data = load_data(str(path), target=target)
        saved = json.loads(json.dumps(data.preprocessing))
        again = load_data(str(path), preprocessing=saved)
        assert again.preprocessing == data.preprocessing
        assert again.target == target
        assert again.labels == data.labels
        assert dict(again.sizes) == dict(data.sizes)
        for name in ("train", "valid", "test"):
            one, two = data.split(name), again.split(name)
            assert type(one) is type(two)
            assert torch.equal(one.x, two.x)
            assert target is None or torch.equal(one.y, two.y)


def test_new_rows_are_treated_alike(tmp_path: Path) -> None:
    rows = people()
    data = load_data(write(tmp_path / "a.csv", rows), target="bought")
    saved = json.loads(json.dumps(data.preprocessing))
    whole = apply(tmp_path / "a.csv", saved)
    few, header = without(rows[:3], "bought")
    order = [3, 0, 4, 2, 1]  # other order, no target, a column more
    shuffled = [[*(row[place] for place in order), "extra"] for row in few]
    new = apply(write(tmp_path / "new.csv", shuffled, [*(header[place] for place in order), "more"]), saved)
    assert type(new) is Batch
    assert torch.equal(new.x, whole.x[:3])


def test_rows_without_their_target_come_without_labels(tmp_path: Path) -> None:
    data = load_data(write(tmp_path / "a.csv", people()), target="bought")
    rows = people()[:4]
    assert isinstance(apply(write(tmp_path / "b.csv", rows), data.preprocessing), Labeled)
    rows[2][4] = ""
    assert type(apply(write(tmp_path / "c.csv", rows), data.preprocessing)) is Batch


def test_a_number_never_missed_in_training_becomes_the_median(tmp_path: Path) -> None:
    data = load_data(write(tmp_path / "a.csv", people()), target="bought")
    rows = people()[:2]
    rows[0][3] = "NA"
    new = apply(write(tmp_path / "b.csv", rows), data.preprocessing)
    (size,) = [column for column in data.preprocessing["columns"] if column["name"] == "size"]
    assert not size["indicator"]
    assert new.x[0, -2].item() == pytest.approx((size["median"] - size["mean"]) / size["std"])


def test_an_unseen_category_is_unknown_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = load_data(write(tmp_path / "a.csv", people()), target="bought")
    rows = people()[:3]
    known = apply(write(tmp_path / "b.csv", rows), data.preprocessing).x
    assert not capsys.readouterr().err
    rows[1][1] = "purple"
    new = apply(write(tmp_path / "new.csv", rows), data.preprocessing).x
    assert (
        "new.csv, column 'color': 1 row has a value that the training data do not have (purple)"
        in capsys.readouterr().err
    )
    assert torch.equal(new[[0, 2]], known[[0, 2]])
    assert new[1, 2:6].tolist() == [0, 0, 0, 0]
    assert torch.equal(new[1, [0, 1, 6, 7]], known[1, [0, 1, 6, 7]])


def test_a_missing_number_that_training_never_missed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, new = tmp_path / "a.csv", tmp_path / "b.csv"
    rows = [f"{row % 7 + 0.5},2024-01-{1 + row % 28:02},{'' if row % 3 else row},{'ab'[row % 2]}" for row in range(60)]
    path.write_text("\n".join(["x,when,z,y", *rows]) + "\n", encoding="utf-8")
    new.write_text("x,when,z,y\n,2024-01-01,,a\n,,1,b\n1,2024-01-02,2,a\n", encoding="utf-8")
    data = load_data(path, target="y")
    capsys.readouterr()
    apply(new, data.preprocessing)
    assert capsys.readouterr().err.splitlines() == [
        f"{new}, column 'x': 2 rows lack a value, which no row of the training data does, filled with the median",
        f"{new}, column 'when': 1 row lacks a value, which no row of the training data does, filled with the median",
    ]


def test_a_missing_category_that_training_never_missed_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[number**2, "ab"[number % 2]] for number in range(20)]
    data = load_data(write(tmp_path / "a.csv", rows, ["x", "letter"]))
    assert apply(write(tmp_path / "new.csv", [[1, ""]], ["x", "letter"]), data.preprocessing).x[0, 1:].tolist() == [
        0,
        0,
    ]
    assert (
        "column 'letter': 1 row has a value that the training data do not have ((missing))" in capsys.readouterr().err
    )


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    data = load_data(write(tmp_path / "a.csv", people()), target="bought")
    rows, header = without(people()[:3], "color")
    with pytest.raises(DataError, match=r"new\.csv has no column 'color'; there are age, constant, size"):
        apply(write(tmp_path / "new.csv", rows, header), data.preprocessing)


def test_an_unseen_class_is_named(tmp_path: Path) -> None:
    data = load_data(write(tmp_path / "a.csv", people()), target="bought")
    rows = people()[:3]
    rows[0][4] = "maybe"
    with pytest.raises(DataError, match=r"line 2, column 'bought': 'maybe' does not occur .* have no, yes"):
        apply(write(tmp_path / "new.csv", rows), data.preprocessing)


def test_a_text_where_numbers_were_is_named(tmp_path: Path) -> None:
    data = load_data(write(tmp_path / "a.csv", people()), target="bought")
    rows = people()[:3]
    rows[2][0] = "old"
    with pytest.raises(DataError, match="line 4, column 'age': a number was expected, got 'old'"):
        apply(write(tmp_path / "new.csv", rows), data.preprocessing)


def test_regression_is_standardized_and_given_back_in_its_units(tmp_path: Path) -> None:
    rows = people()
    path = write(tmp_path / "a.csv", rows)
    data = load_data(path, target="price")
    assert dict(data.sizes) == {"features": 10, "targets": 1}
    assert data.labels == ()
    assert isinstance(data.train, Labeled)
    assert data.train.y.shape == (140, 1)
    assert data.train.y.double().mean().item() == pytest.approx(0, abs=1e-6)
    assert data.train.y.double().std(correction=0).item() == pytest.approx(1, abs=1e-6)
    whole = apply(path, data.preprocessing)
    assert isinstance(whole, Labeled)
    assert in_original_units(whole.y, data.preprocessing).flatten().tolist() == pytest.approx([row[5] for row in rows])
    classes = load_data(path, target="bought").preprocessing
    assert torch.equal(in_original_units(whole.y, classes), whole.y)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["3", "1", "10", "2"], ("1", "2", "3", "10")),
        (["1", "1.0", "0", "0.0"], ("0", "1")),
        (["-1", "1"], ("-1", "1")),
        (["b", "a", "2"], ("2", "a", "b")),
        (["0.5", "1"], ()),
        ([str(number) for number in range(25)], ()),
        ([str(number) for number in range(20)], tuple(map(str, range(20)))),
        ([f"c{number}" for number in range(30)], tuple(sorted(f"c{number}" for number in range(30)))),
    ],
)
def test_few_whole_numbers_and_words_are_classes(values: list[str], labels: tuple[str, ...], tmp_path: Path) -> None:
    rows = [[number, values[number % len(values)]] for number in range(150)]
    data = load_data(write(tmp_path / "a.csv", rows, ["x", "y"]), target="y")
    assert data.labels == labels
    assert ("classes" in data.sizes) == bool(labels)


def test_whole_numbers_that_hardly_repeat_are_a_quantity(tmp_path: Path) -> None:
    rows = [[number, number * 1000] for number in range(12)]
    assert load_data(write(tmp_path / "a.csv", rows, ["x", "y"]), target="y").sizes["targets"] == 1


def test_new_rows_may_write_a_class_as_a_decimal(tmp_path: Path) -> None:
    data = load_data(write(tmp_path / "a.csv", [[number, number % 2] for number in range(20)], ["x", "y"]), target="y")
    new = apply(write(tmp_path / "b.csv", [[1, "1.0"], [2, "0"]], ["x", "y"]), data.preprocessing)
    assert isinstance(new, Labeled)
    assert new.y.tolist() == [1, 0]


def test_whole_numbers_beyond_the_floats_stay_apart(tmp_path: Path) -> None:
    rows = [[number, f"id-{10**17 + number % 2}".removeprefix("id-")] for number in range(20)]
    assert load_data(write(tmp_path / "a.csv", rows, ["x", "y"]), target="y").labels == (str(10**17), str(10**17 + 1))


def test_no_row_changes_its_split_for_a_rare_category(tmp_path: Path) -> None:
    """A category that only held-out rows have is unknown there, as it would be in new rows."""
    places = []
    for place in range(30):
        rows: Rows = [[number**2, "rare" if number == place else "ab"[number % 2]] for number in range(30)]
        data = load_data(write(tmp_path / "a.csv", rows, ["x", "kind"]))
        assert [len(data.split(name)) for name in ("train", "valid", "test")] == [21, 3, 6]
        learned = [column["values"] for column in data.preprocessing["columns"] if column["kind"] == "category"]
        held = next((split for split in ("valid", "test") if (data.split(split).x[:, 1:].sum(1) == 0).any()), "train")
        assert (held == "train") == ("rare" in learned[0])
        said = [remark for remark in data.remarks if "do not have (rare)" in remark]
        assert [f"In the {held} split" in remark for remark in said] == [True] * (held != "train")
        places.append(held)
    assert [places.count(split) for split in ("train", "valid", "test")] == [21, 3, 6]


def test_a_rare_class_is_learned(tmp_path: Path) -> None:
    for place in range(30):
        rows: Rows = [[number**2, "rare" if number == place else "usual"] for number in range(30)]
        data = load_data(write(tmp_path / "a.csv", rows, ["x", "y"]), target="y")
        assert data.labels == ("rare", "usual")
        assert (data.train.y == 0).sum() == 1
        assert sum(len(data.split(name)) for name in ("train", "valid", "test")) == 30


def test_no_target_gives_features_only(tmp_path: Path) -> None:
    data = load_data(write(tmp_path / "a.csv", people()))
    assert type(data.train) is Batch
    assert dict(data.sizes) == {"features": 11}


@pytest.mark.parametrize(
    ("header", "rows", "target", "problem"),
    [
        (["x", "label"], [[1, "a"], [2, "b"]] * 5, "labels", r"no column 'labels'; did you mean label\?"),
        (["x", "y"], [[1, "a"], [2, ""]] * 5, "y", "line 3, column 'y': the target is missing"),
        (["x", "y"], [[1, "a"], [2, "a"]] * 5, "y", "the target 'y' is a in every row"),
        (["y"], [["a"], ["b"]] * 5, "y", "has no column but the target 'y'"),
        (
            ["x", "y"],
            [["", "a"], ["", "b"]] * 5,
            "y",
            r"nothing to learn from besides the target 'y' \(x: it has no value",
        ),
        (["x", "y"], [["inf", "a"], ["1", "b"]] * 5, "y", "column 'x': a number was expected, got 'inf'"),
        (["x", "y"], [[1, "inf"], [2, "0.5"]] * 5, "y", "column 'y': a number was expected, got 'inf'"),
        (["x", "y"], [[1, "a"], [2, "b"]] * 2, "y", "has 4 examples; at least 5 are needed"),
        (["n", "y"], [[f"Mr {i}", i % 2] for i in range(40)], "y", r"nothing to learn .*\(n: all values differ\)"),
        (["x", "y"], [[0.5, letter] for letter in "abcdef"], "y", "too few rows for its classes"),
        (
            ["x", "y"],
            [[i / 2, "ab"[i % 2]] for i in range(40)] + [["many", "a"]],
            "y",
            r"line 42, column 'x': the column holds numbers, but 'many' is none; mend it, or say --column 'x=category'",
        ),
        (
            ["d", "y"],
            [[f"2024-01-{i + 1:02}", "ab"[i % 2]] for i in range(30)] + [["soon", "a"]],
            "y",
            "line 32, column 'd': the column holds dates, but 'soon' is none",
        ),
    ],
)
def test_tables_that_cannot_be_learned_are_refused(
    header: list[str], rows: Rows, target: str | None, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=problem):
        load_data(write(tmp_path / "a.csv", rows, header), target=target)


@pytest.mark.parametrize("target", ["bought", "price"])
def test_saved_preprocessing_needs_the_target_too(target: str, tmp_path: Path) -> None:
    rows = people()
    saved = load_data(write(tmp_path / "a.csv", rows), target=target).preprocessing
    others, header = without(rows, target)
    with pytest.raises(DataError, match=f"has no column '{target}'"):
        load_data(write(tmp_path / "b.csv", others, header), preprocessing=saved)
    rows[5][HEADER.index(target)] = ""
    with pytest.raises(DataError, match=f"line 7, column '{target}': the target is missing"):
        load_data(write(tmp_path / "c.csv", rows), preprocessing=saved)


def test_preprocessing_of_other_data_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", people())
    saved = load_data(path, target="bought").preprocessing
    with pytest.raises(UsageError, match="has the target 'bought', but 'price' was given"):
        load_data(path, target="price", preprocessing=saved)
    with pytest.raises(DataError, match="not that of a table: it has levels"):
        apply(path, {"levels": 17})


@pytest.mark.parametrize("constant", [0.1, 7, 0, 123456.7, 1e-200])
def test_a_constant_column_does_not_magnify_a_new_value(constant: float, tmp_path: Path) -> None:
    rows = [[constant, number, "ab"[number % 2]] for number in range(30)]
    data = load_data(write(tmp_path / "a.csv", rows, ["c", "x", "y"]), target="y")
    new = apply(write(tmp_path / "b.csv", [[constant + 0.5, 1]], ["c", "x"]), data.preprocessing)
    assert new.x[0, 0].item() == pytest.approx(0.5)


def test_a_small_but_real_spread_is_standardized(tmp_path: Path) -> None:
    rows = [[1e9 + number, "ab"[number % 2]] for number in range(30)]
    data = load_data(write(tmp_path / "a.csv", rows, ["time", "y"]), target="y")
    assert data.train.x.double().std(correction=0).item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("column", ["x", "y"])
def test_numbers_that_overflow_are_refused(column: str, tmp_path: Path) -> None:
    header = ["x", "y"] if column == "x" else ["y", "x"]
    path = write(tmp_path / "a.csv", [[f"{number + 1}e300", number + 0.5] for number in range(30)], header)
    with pytest.raises(DataError, match=rf"column '{column}' has numbers up to .*e\+301, too large to be standardized"):
        load_data(path, target="y")
    path = write(tmp_path / "b.csv", [[number, number + 0.5] for number in range(30)], header)
    saved = load_data(path, target="y").preprocessing
    with pytest.raises(DataError, match=rf"line 3, column '{column}': 1e\+300 is too far from the training data"):
        apply(write(tmp_path / "c.csv", [[1, 1], ["1e300", 1]], header), saved)


def test_a_raw_target_keeps_its_units(tmp_path: Path) -> None:
    """A column of few whole numbers, which would be classes, is learned as the counts that it holds."""
    rows = [[row % 7, row % 5] for row in range(100)]
    path = write(tmp_path / "counts.csv", rows, ["x", "n"])
    assert load_data(path, target="n").sizes == {"features": 1, "classes": 5}
    data = load_data(f"{path}:raw", target="n")
    assert data.name == f"{path}:raw"
    assert data.sizes == {"features": 1, "targets": 1}
    told = torch.cat([data.split(part).y for part in ("train", "valid", "test")])
    assert told[:, 0].sort().values.tolist() == sorted(n for _, n in rows)
    saved = json.loads(json.dumps(data.preprocessing))
    assert in_original_units(torch.tensor([[2.5]]), saved).item() == 2.5
    again = load_data(f"{path}:{saved['form']}", target="n", preprocessing=saved)
    assert again.fingerprint() == data.fingerprint()
    assert torch.equal(apply(path, saved).y, torch.tensor([[float(n)] for _, n in rows]))  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="say which column is the target"):
        load_data(f"{path}:raw")
    with pytest.raises(
        UsageError, match="':raw' is a form of a CSV file, whose target may be left as it is, and digits is not one"
    ):
        load_data("digits:raw")
    words = write(tmp_path / "words.csv", [[row, "ab"[row % 2]] for row in range(50)], ["x", "n"])
    with pytest.raises(DataError, match=r"a number was expected, got '[ab]'"):
        load_data(f"{words}:raw", target="n")


@pytest.mark.parametrize("target", [None, "y"])
def test_a_table_of_zeros_and_ones_stays_as_it_is(target: str | None, tmp_path: Path) -> None:
    """Models of binary data take it; where a single column holds anything else, all are standardized."""
    rows = (np.arange(40)[:, None] >> np.arange(3)) & 1
    for last, kept in ((0, True), (2, False)):
        path = tmp_path / f"{last}.csv"
        values = rows.copy()
        values[-1, 1] = last
        np.savetxt(path, np.column_stack([values, np.arange(40) * 0.5]), "%g", ",", header="a,b,c,y", comments="")
        data = load_data(str(path), target=target) if target else load_data(str(path), drop="y")
        x = torch.cat([data.train.x, data.split("test").x])
        assert bool(((x == 0) | (x == 1)).all()) == kept
