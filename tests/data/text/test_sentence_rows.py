"""Pairs of texts become rows with class token, separators and segments; tensors become a data set of them."""

from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError, SentencePairs, UsageError
from deepcanon.data import from_tensors
from deepcanon.data.text.sentence_rows import sentence_pairs
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens
from deepcanon.data.text.words import Words

WORDS = WithSpecialTokens(
    Words(("<unk>", "a", "b", "c")), SpecialTokens.first("padding", "mask", "separator", "class_")
)
X = torch.tensor([[1, 5, 2, 6, 2, 9], [1, 5, 6, 2, 7, 2]])
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]])
LENGTHS = torch.tensor([5, 6])


def test_texts_stand_between_special_tokens() -> None:
    found = sentence_pairs([("a b", "c", 1), ("c", "zebra a", 0)], WORDS, length=8)
    assert found.x.tolist() == [[3, 5, 6, 2, 7, 2, 0, 0], [3, 7, 2, 4, 5, 2, 0, 0]]
    assert found.segments.tolist() == [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 0, 0]]
    assert found.lengths.tolist() == [6, 6]
    assert found.y.tolist() == [1, 0]
    with pytest.raises(DataError, match="the longest pair has 6 tokens with its special ones; rows hold 5"):
        sentence_pairs([("a b", "c", 1)], WORDS, length=5)


def test_tensors_become_a_data_set_whose_special_tokens_are_found() -> None:
    data = from_tensors(X, torch.tensor([0, 1]), lengths=LENGTHS, segments=SEGMENTS)
    assert isinstance(data.train, SentencePairs)
    assert data.kind == "sentences"
    assert data.sizes == {"vocab": 9, "length": 6, "mask_token": 8, "class_token": 1, "separator_token": 2}
    model = dc.find("bert")(**data.sizes, layers=1, heads=1, embedding=4)
    dc.fit(model, data, quiet=True, steps=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, "need labels y"),
        ({"y": torch.tensor([0, -1])}, "need labels y"),
        ({"x": X.float()}, "whole numbers .* got torch.float32"),
        ({"x": X + torch.tensor([[0], [3]])}, "all rows begin with one class token; got 1, 4"),
        ({"lengths": torch.tensor([4, 6])}, "all rows end with one separator token; got 2, 6"),
        ({"lengths": torch.tensor([7, 6])}, "lengths from 1 to 6; got from 6 to 7"),
        ({"segments": SEGMENTS[:, :5]}, "every token has a segment"),
    ],
)
def test_tensors_that_are_no_pairs_are_refused(change: dict[str, torch.Tensor | None], message: str) -> None:
    parts: dict[str, Any] = {"x": X, "y": torch.tensor([0, 1]), "lengths": LENGTHS}
    parts |= {"segments": SEGMENTS, **change}
    x, y = parts.pop("x"), parts.pop("y")
    with pytest.raises(DataError, match=message):
        from_tensors(x, y, **parts)


def test_sentences_and_sequences_are_told_apart() -> None:
    with pytest.raises(UsageError, match="pairs of sentences have no y_lengths"):
        from_tensors(X, torch.tensor([0, 1]), segments=SEGMENTS, y_lengths=LENGTHS)


def test_labels_of_more_than_two_classes_are_a_task_of_its_own() -> None:
    data = dc.from_tensors(X, torch.tensor([0, 2]), lengths=LENGTHS, segments=SEGMENTS)
    assert data.sizes["classes"] == 3
    assert data.labels == ("0", "1", "2")
    assert "classes" not in dc.from_tensors(X, torch.tensor([0, 1]), lengths=LENGTHS, segments=SEGMENTS).sizes
