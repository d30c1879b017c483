"""Rows with missing entries: what is there counts, what is not is never read."""

from __future__ import annotations

import pytest
import torch

from deepcanon.core import Batch, DataError, HeldOut, Incomplete, Labeled

NAN = torch.nan
X = torch.tensor([[1.0, NAN, 3.0], [NAN, NAN, 2.0], [NAN, NAN, NAN]])
Y = torch.tensor([[NAN, 2.0, NAN], [4.0, NAN, NAN], [1.0, 1.0, NAN]])


def test_a_selection_keeps_what_is_missing_and_weighs_what_is_there() -> None:
    batch = Incomplete(X)
    assert batch.weight == 3
    assert batch.observed.tolist() == [[True, False, True], [False, False, True], [False] * 3]
    few = batch.select(torch.tensor([1, 2]))
    assert (len(few), few.weight) == (2, 1)
    assert few.observed.tolist() == [[False, False, True], [False] * 3]


def test_held_out_entries_are_weighed_by_themselves() -> None:
    batch = HeldOut(X, Y)
    assert batch.metric_weight == 4
    assert batch.weight == int(batch.observed.sum()) == 3
    assert batch.labels.tolist() == [[2.0], [4.0], [1.0], [1.0]]
    assert torch.equal(batch.where_labeled(torch.arange(9.0).view(3, 3)), torch.tensor([[1.0], [3.0], [6.0], [7.0]]))
    few = batch.select(torch.tensor([2, 0]))
    assert few.metric_weight == 3
    assert few.asked.tolist() == [[True, True, False], [False, True, False]]


def test_a_model_of_whole_rows_does_not_get_them() -> None:
    for kind in (Incomplete, HeldOut):
        assert not kind.is_a(Batch)
        assert not kind.is_a(Labeled)
        assert kind.is_a(Incomplete)
    assert not Incomplete.is_a(HeldOut)


def test_malformed_rows_are_refused() -> None:
    with pytest.raises(DataError, match=r"real numbers, \(B, features\).*got torch.int64 of the shape \(2, 2\)"):
        Incomplete(torch.ones(2, 2, dtype=torch.long))
    with pytest.raises(DataError, match=r"of the shape \(3,\)"):
        Incomplete(torch.ones(3))
    with pytest.raises(DataError, match="may not be among those it is predicted from"):
        HeldOut(X, X)
    with pytest.raises(DataError, match="have the shape of the rows"):
        HeldOut(X, Y[:2])
