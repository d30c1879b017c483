"""Delayed recall: the label is the first token, whatever stands between it and the question."""

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.data.load import load_data
from deepcanon.data.sets.recall import CAPITALS, FILLERS, recalls


def test_the_label_is_the_first_token_and_nothing_else_tells_it() -> None:
    batch = recalls(4000, length=12, seed=3)
    assert torch.equal(batch.x[:, 0], batch.y)
    middle = batch.x[:, 1:-1]
    assert middle.unique().tolist() == list(range(len(CAPITALS), len(CAPITALS) + len(FILLERS)))
    assert batch.x[:, -1].unique().tolist() == [len(CAPITALS) + len(FILLERS)]
    counts = torch.stack([(middle[batch.y == label] == 8).float().mean() for label in range(8)])
    assert float((counts - 1 / 8).abs().max()) < 5 * (7 / 64 / 5000) ** 0.5  # about 5,000 fillers for each label


def test_the_form_length_draws_sequences_of_another_length() -> None:
    data = load_data("recall:length=20")
    assert data.train.x.shape == (10000, 20)
    assert data.sizes["length"] == 20
    assert data.name == "recall:length=20"
    assert data.preprocessing["form"] == "length=20"
    assert torch.equal(data.split("test").x, recalls(2000, 20, seed=2).x)
    assert load_data("adding:length=30").split("valid").x.shape == (1000, 30, 2)
    with pytest.raises(UsageError, match="length must be at least 2"):
        load_data("recall:length=1")
    with pytest.raises(UsageError, match="but length is a form of text"):
        load_data("digits:length=20")
