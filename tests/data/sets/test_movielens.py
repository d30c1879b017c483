"""MovieLens 100K: a missing file is explained, and the published split gives the published counts and baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from deepcanon.core import DataError, HeldOut
from deepcanon.data import Dataset, load_data
from deepcanon.data.sets.movielens import MOVIELENS


def test_a_missing_file_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(
        DataError, match=r"get ml-100k\.zip from https://grouplens\.org.*put u1\.base and u1\.test into"
    ):
        load_data("movielens-100k")
    (tmp_path / "movielens-100k").mkdir()
    for name in ("u1.base", "u1.test"):
        (tmp_path / "movielens-100k" / name).write_text("1\t1\t5\t0\n")
    with pytest.raises(DataError, match=r"u1\.base is damaged"):
        load_data("movielens-100k")


@pytest.mark.slow
@pytest.mark.skipif(not MOVIELENS.remote.here(), reason="u1.base and u1.test are not here; set DEEPCANON_DATA")
def test_the_published_split() -> None:
    data: Dataset[Any] = load_data("movielens-100k")
    assert isinstance(data.test, HeldOut)
    assert isinstance(data.valid, HeldOut)
    assert data.train.weight + data.valid.weight == int(data.test.observed.sum()) == 80000
    assert data.test.weight == 20000
    given = data.test.observed
    x = data.test.x.nan_to_num(0)
    mean = x.sum() / given.sum()
    user, item = torch.zeros(len(x), 1), torch.zeros(1, x.shape[1])
    for _ in range(20):
        item = ((x - mean - user) * given).sum(0, keepdim=True) / (given.sum(0, keepdim=True) + 5)
        user = ((x - mean - item) * given).sum(1, keepdim=True) / (given.sum(1, keepdim=True) + 5)
    error = ((mean + user + item).clamp(1, 5) - data.test.y)[data.test.asked]
    assert float(error.square().mean().sqrt()) == pytest.approx(0.955, abs=0.003)  # the baseline of two biases
