"""Ratings in CSV files: empty cells are missing, and what is held out is fixed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from deepcanon.core import DataError, HeldOut, Incomplete, UsageError
from deepcanon.data import load_data, load_rows
from deepcanon.data.tables.rated import held_out


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
    with pytest.raises(UsageError, match="leave out ':labels=3'"):
        load_data(f"{path}:ratings:labels=3")
    with pytest.raises(UsageError, match="digits is not a CSV file, which may hold ratings; leave out ':ratings'"):
        load_data("digits:ratings")
    path.write_text("Alien,Dune\n1,1\n")
    with pytest.raises(DataError, match="has no rating above 1"):
        load_data(f"{path}:ratings")
