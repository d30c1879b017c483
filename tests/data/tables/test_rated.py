"""Ratings in CSV files: empty cells are missing, and what is held out is fixed."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from deepcanon.core import DataError, HeldOut, Incomplete, UsageError
from deepcanon.data import kind_of_path, load_data, load_rows, row_names
from deepcanon.data.tables.rated import held_out
from tests.data.text.test_labeled_text import call, refused


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "movies.csv"
    rows = [f"{1 + user % 5},,{'' if user % 3 else 4},{1 + user % 2}" for user in range(40)]
    path.write_text("Alien,Brazil,Casablanca,Dune\n" + "\n".join(rows) + "\n")
    return path


def test_a_file_is_read_and_a_part_of_its_ratings_held_out(path: Path) -> None:
    data = load_data(f"{path}:ratings")
    assert (data.kind, data.shape, dict(data.sizes)) == ("ratings", (4,), {"features": 4, "ratings": 5})
    assert isinstance(data.test, HeldOut)
    assert isinstance(data.valid, HeldOut)
    assert data.train.weight + data.valid.metric_weight + data.test.metric_weight == 40 + 14 + 40
    assert not data.train.observed[:, 1].any()
    assert data.preprocessing["columns"] == ["Alien", "Brazil", "Casablanca", "Dune"]
    again = load_data(f"{path}:ratings", preprocessing=data.preprocessing)
    assert again.fingerprint() == data.fingerprint()
    rows = load_rows(f"{path}:ratings", data.preprocessing)
    assert type(rows) is Incomplete
    assert rows.x[:2].nan_to_num(0).tolist() == [[1, 0, 4, 1], [2, 0, 0, 2]]


def test_what_is_held_out_is_in_one_part_only() -> None:
    x = torch.randint(1, 6, (50, 20)).float()
    train, valid, test = held_out(x)
    counts = train.observed.long() + valid.asked.long() + test.asked.long()
    assert (counts == 1).all()
    whole = train.x.nan_to_num(0) + valid.y.nan_to_num(0) + test.y.nan_to_num(0)
    assert torch.equal(whole, x)


@pytest.mark.parametrize("text", ["0", "2.5", "good", "-1"])
def test_what_is_not_a_rating_is_named_with_its_place(path: Path, text: str) -> None:
    path.write_text(f"Alien,Dune\n3,4\n,{text}\n")
    with pytest.raises(DataError, match=r"line 3, column 'Dune': a rating, a whole number from 1 on, was expected"):
        load_data(f"{path}:ratings")


def test_other_forms_and_targets_are_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="leave out the target 'Dune'"):
        load_data(f"{path}:ratings", target="Dune")
    with pytest.raises(UsageError, match="labels are hidden of examples that have classes"):
        load_data(f"{path}:ratings:labels=3")
    with pytest.raises(
        UsageError, match="':ratings' is a form of a CSV file of ratings, and digits is not one; leave it out"
    ):
        load_data("digits:ratings")
    path.write_text("Alien,Dune\n1,1\n")
    with pytest.raises(DataError, match="has no rating above 1"):
        load_data(f"{path}:ratings")


LONG = [("anna", "Alien", 5), ("anna", "Brazil", 2), ("bob", "Alien", 1), ("bob", "Dune", 4), ("eve", "Dune", 3)]


def long_form(path: Path, rows: Sequence[tuple[Any, ...]], header: str = "user,item,rating") -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def test_ratings_one_by_one_are_those_of_a_row_for_each_user(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text("Alien,Brazil,Dune\n5,2,\n1,,4\n,,3\n")
    wanted = load_data(f"{wide}:ratings")
    long = load_data(f"{long_form(tmp_path / 'long.csv', LONG)}:ratings")
    assert long.fingerprint() == wanted.fingerprint()
    assert long.preprocessing["columns"] == wanted.preprocessing["columns"]


@pytest.mark.parametrize("header", ["userId,movieId,rating,timestamp", "movie,USER,Rating,date", "a,b,rating,time"])
def test_columns_are_known_by_their_names_or_their_places(tmp_path: Path, header: str) -> None:
    rows = [(b, a, c, 0) if header.startswith("movie") else (a, b, c, 0) for a, b, c in LONG]
    path = long_form(tmp_path / "long.csv", rows, header)
    assert load_data(f"{path}:ratings").preprocessing["columns"] == ["Alien", "Brazil", "Dune"]
    by_itself = "user" in header.lower()
    assert (kind_of_path(str(path)) == "ratings") == by_itself  # without a form, by its header


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([*LONG, ("bob", "Alien", 2)], "line 7: the user 'bob' has rated 'Alien' in line 4 already"),
        ([*LONG, ("bob", "Brazil", 2.5)], "line 7, column 'rating': a rating, a whole number from 1 on"),
        ([*LONG, ("bob", "Brazil", "")], "line 7: the rating is missing"),
        ([*LONG, ("", "Brazil", 1)], "line 7, column 'user': it is missing"),
        ([("a", "b", 1)], "has no rating above 1"),
    ],
)
def test_bad_ratings_are_named_with_their_line(tmp_path: Path, rows: list[tuple[Any, ...]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        load_data(f"{long_form(tmp_path / 'long.csv', rows)}:ratings")


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = long_form(tmp_path / "long.csv", [(*row, "x") for row in LONG], "user,item,rating,title")
    with pytest.raises(DataError, match="one of items and perhaps timestamp, but it has user, item, title"):
        load_data(f"{path}:ratings")


@pytest.mark.slow
def test_predictions_name_users_and_items(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = [
        (f"u{user}", f"i{item}", draw.randint(1, 5)) for user in range(30) for item in range(4) if (user + item) % 3
    ]
    path = long_form(tmp_path / "long.csv", rows)
    call("train", "ratings_rbm", "--data", path, "--units", 4, "--epochs", 2, "--out", tmp_path / "run")
    call("evaluate", tmp_path / "run")

    def predicted(*words: Any) -> dict[tuple[str, str], float]:
        call("predict", tmp_path / "run", *words, "--out", tmp_path / "out.csv", "--overwrite")
        with (tmp_path / "out.csv").open(newline="") as lines:
            return {(row["user"], row["item"]): float(row["prediction"]) for row in csv.DictReader(lines)}

    given = {row[:2] for row in rows}
    own = predicted()
    assert own.keys() == {(f"u{user}", f"i{item}") for user in range(30) for item in range(4)} - given
    with path.open("a") as lines:
        lines.write("late,i1,3\n")  # the file may have grown since
    assert predicted().keys() == own.keys() | {("late", f"i{item}") for item in (0, 2, 3)}
    new = tmp_path / "new.csv"
    long_form(new, [("zoe", "i0", 5), ("zoe", "i2", 1)])
    everything = predicted("--data", new)
    assert everything.keys() == {("zoe", "i1"), ("zoe", "i3")}
    long_form(new, [("zoe", "i0", 5), ("zoe", "i2", 1), ("zoe", "i3", "")])
    assert predicted("--data", new) == {("zoe", "i3"): everything["zoe", "i3"]}  # only what is asked for
    long_form(new, [("zoe", "i9", 5)])
    assert "line 2: the item 'i9' does not occur in the training data" in refused(
        "predict", tmp_path / "run", "--data", new, "--out", tmp_path / "o.csv"
    )


@pytest.mark.parametrize(("header", "first"), [("user", "007"), ("User_ID", "41"), ("ID", "ann")])
def test_a_column_of_users_names_the_rows_and_is_no_item(path: Path, header: str, first: str) -> None:
    plain = load_data(f"{path}:ratings")
    lines = path.read_text().splitlines()
    users = [first, *(f"{100 + row}" for row in range(1, len(lines) - 1))]
    rows = [f"{user},{line}" for user, line in zip([header, *users], lines, strict=True)]
    path.write_text("\n".join(rows) + "\n")
    named = load_data(f"{path}:ratings")
    assert named.sizes == plain.sizes
    assert named.preprocessing["columns"] == ["Alien", "Brazil", "Casablanca", "Dune"]
    torch.testing.assert_close(named.train.x, plain.train.x, equal_nan=True)
    assert load_rows(f"{path}:ratings", named.preprocessing).x.shape == (40, 4)
    assert row_names(f"{path}:ratings", named.preprocessing, {}) == {header: users}


def test_an_item_of_a_run_stays_one_and_a_file_of_users_alone_is_refused(path: Path) -> None:
    path.write_text("id,Dune\n3,4\n2,1\n")
    saved = {"form": "ratings", "columns": ["id", "Dune"], "ratings": 4}
    assert load_rows(f"{path}:ratings", saved).x.tolist() == [[3, 4], [2, 1]]
    assert row_names(f"{path}:ratings", saved, {}) == {}
    path.write_text("user,id\n3,4\n")
    with pytest.raises(DataError, match="has no column but user, id, which names users; add one for each item"):
        load_data(f"{path}:ratings")
