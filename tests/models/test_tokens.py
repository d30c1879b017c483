"""Every model of tokens refuses what is not in its vocabulary, with its place, and never reads the padding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.catalogue import entries, find
from deepcanon.core import DataError, LabeledSequences, SentencePairs, SequencePairs, Sequences

TOKENS = (Sequences, LabeledSequences, SequencePairs, SentencePairs)
MODELS = [entry.name for entry in entries() if issubclass(find(entry.name).batch_type(), TOKENS)]


def example(name: str) -> tuple[Any, Any]:
    """A model and rows of tokens for it, each padded at its end."""
    torch.manual_seed(0)
    model, batch = find(name).example()
    if batch.x.is_floating_point():
        model, x = find(name)(vocab=7, classes=3), torch.arange(24).reshape(4, 6) % 7
        batch = LabeledSequences(x, torch.tensor([0, 1, 2, 0]), torch.tensor([6, 5, 4, 3]))
    return model, replace(batch, lengths=(batch.lengths - 1).clamp_min(1))


def data_of(batch: Any) -> dc.Dataset[Any]:
    return replace(dc.from_tensors(torch.zeros(2, 2)), train=batch)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("token", [-1, 10**6])
def test_a_token_outside_the_vocabulary_is_named_with_its_place(name: str, token: int) -> None:
    model, batch = example(name)
    wrong = batch.x.clone()
    wrong[1, 0] = token
    other = replace(batch, x=wrong)
    for act in (lambda: model.loss(other), lambda: dc.fit(model, data_of(other), quiet=True, steps=1)):
        with pytest.raises(DataError, match=f"got {token} at position 0 of row 1"):
            act()


@pytest.mark.parametrize("name", MODELS)
def test_the_padding_may_hold_anything(name: str) -> None:
    model, batch = example(name)
    model.eval()
    padding = torch.arange(batch.x.shape[1]) >= batch.lengths.unsqueeze(1)
    losses = []
    for token in (0, -1, 10**6):
        torch.manual_seed(1)
        losses.append(model.loss(replace(batch, x=batch.x.masked_fill(padding, token))))
    for other in losses[1:]:
        assert all(torch.equal(value, losses[0][term]) for term, value in other.items())


@pytest.mark.parametrize("name", ["bert", "lstm_predictor"])
@pytest.mark.parametrize("label", [-1, 10**6])
def test_a_class_that_the_model_does_not_have_is_refused_before_training(name: str, label: int) -> None:
    model, batch = example(name)
    wrong = batch.y.clone()
    wrong[1] = label
    with pytest.raises(DataError, match=f"got the class {label}"):
        dc.fit(model, data_of(replace(batch, y=wrong)), quiet=True, steps=1)
