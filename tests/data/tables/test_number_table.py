"""Tables of numbers that come along: scikit-learn's rows in their units, each once, and new rows come in a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import deepcanon as dc
from deepcanon.data import load_data
from deepcanon.data.sets.houses import CAP, CITIES, drawn
from deepcanon.data.tables.table import in_original_units, original_rows

PARTS = ("train", "valid", "test")


def in_units(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """All rows with their labels, in the units of the table."""
    rows = [
        np.column_stack(list(original_rows(data.split(part).x.double(), data.preprocessing).values())) for part in PARTS
    ]
    y = [in_original_units(data.split(part).y.double(), data.preprocessing) for part in PARTS]
    return np.concatenate(rows), torch.cat(y).reshape(-1).numpy()


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("wine", load_wine), ("breast-cancer", load_breast_cancer), ("diabetes", lambda: load_diabetes(scaled=False))],
)
def test_the_rows_are_those_of_scikit_learn_in_their_units(name: str, theirs: Any) -> None:
    data = load_data(name)
    found = theirs()
    assert [column["name"] for column in data.preprocessing["columns"]] == list(found.feature_names)
    x, y = in_units(data)
    ours, known = (np.column_stack(each) for each in ((x, y), (found.data, found.target)))
    nearest = cdist(known / known.std(0), ours / known.std(0)).argmin(1)
    assert sorted(nearest) == list(range(len(known)))  # each is there once
    np.testing.assert_allclose(ours[nearest], known, rtol=1e-4, atol=1e-4)
    if data.labels:
        counts = [data.split(part).y.bincount() / len(data.split(part)) for part in PARTS]
        assert all(torch.allclose(each, counts[0], atol=0.04) for each in counts)


def test_houses_are_as_they_are_drawn() -> None:
    columns, price = drawn(4000, seed=0)
    data = load_data("houses")
    x, y = in_units(data)
    assert [column["name"] for column in data.preprocessing["columns"]] == list(columns)
    np.testing.assert_allclose(np.sort(y), np.sort(price), atol=1e-4)
    np.testing.assert_allclose(np.sort(x[:, 0]), np.sort(columns["income"]), rtol=1e-3)
    assert 0.01 < (price == CAP).mean() < 0.15
    north, west, _ = CITIES[1]
    near = np.hypot(columns["latitude"] - north, columns["longitude"] - west) < 0.5
    assert price[near].mean() > price[~near].mean() + 0.5


def test_new_rows_come_in_a_file_and_errors_are_in_units(tmp_path: Path) -> None:
    run = dc.Run.train("linear_regression", "diabetes", out=tmp_path / "run", quiet=True, pictures=False)
    found = load_diabetes(scaled=False)
    with (tmp_path / "new.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["patient", *found.feature_names], *([i, *row] for i, row in enumerate(found.data[:20]))])
    predicted = run.predict(tmp_path / "new.csv")["prediction"]
    assert np.corrcoef(predicted, found.target[:20])[0, 1] > 0.5
    assert 50 < np.mean(predicted) < 300
