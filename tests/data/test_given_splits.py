"""Validation and test data that are given: of the kind of the training data, and with their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError

X, Y = torch.randn(12, 3), torch.arange(12) % 2


def test_splits_are_what_was_given_and_sizes_hold_for_all() -> None:
    data = dc.from_tensors(X, Y, valid=(X[:5], Y[:5] + 1), test=(X[:2].numpy(), [3, 0]), name="mine")
    assert (len(data.train), len(data.split("valid")), len(data.split("test"))) == (12, 5, 2)
    assert torch.equal(data.split("valid").x, X[:5])
    assert torch.equal(data.split("test").y, torch.tensor([3, 0]))
    assert (data.sizes["classes"], data.labels, data.name) == (4, ("0", "1", "2", "3"), "mine")


def test_splits_have_the_precision_of_the_training_data() -> None:
    data = dc.from_tensors(X.double(), Y, valid=(X.numpy(), Y))
    assert data.split("valid").x.dtype == torch.float64
    assert dc.from_tensors(X.numpy(), Y, valid=(X.double().numpy(), Y)).split("valid").x.dtype == torch.float32


def test_splits_of_other_parts_are_data_sets_of_them() -> None:
    tokens = torch.tensor([[0, 1, 2], [2, 1, 0]])
    longer = torch.tensor([[0, 1, 2, 5]])
    data = dc.from_tensors(tokens, lengths=3, test=dc.from_tensors(longer, lengths=4))
    assert dict(data.sizes) == {"vocab": 6, "length": 4}
    assert torch.equal(data.split("test").x, longer)


def test_a_training_watches_the_validation_data_that_were_given() -> None:
    result = dc.fit(
        dc.models.MLP(features=3, classes=2, hidden=(4,)),
        dc.from_tensors(X, Y, valid=(X, Y), test=(X[:6], Y[:6])),
        epochs=1,
        quiet=True,
    )
    assert result.valid["nll"] == pytest.approx(result.train["nll"])
    assert result.weights.startswith("best by validation")
    assert "accuracy" in result.test


WRONG: dict[str, tuple[Any, str]] = {
    "without labels": (X, "has examples of torch.float32, the training data are labeled examples"),
    "of other features": ((X[:, :2], Y), "features is 2 in the split valid and 3 in the training data"),
    "of targets": ((X, np.zeros(12)), "in the split valid"),
    "images": ((torch.zeros(12, 1, 2, 2), Y), "in the split valid"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_split_of_another_kind_is_refused(case: str) -> None:
    part, sentence = WRONG[case]
    with pytest.raises(DataError, match=sentence):
        dc.from_tensors(X, Y, valid=part)
