"""Pairs of texts become pairs of tokens, and tensors become data sets of them."""

import pytest
import torch

import deepcanon as dc
from deepcanon.core import Captioned, DataError, SequencePairs, UsageError
from deepcanon.data.text.text_pairs import character_tokenizer, sequence_pairs

SOURCE, TARGET = character_tokenizer("abc", "padding"), character_tokenizer("xyz", "padding", "begin", "end")


def test_targets_stand_between_begin_and_end_tokens() -> None:
    pairs = sequence_pairs([("ab", "x"), ("c", "zyx")], SOURCE, TARGET, (3, 6))
    assert pairs.x.tolist() == [[1, 2, 0], [3, 0, 0]]
    assert pairs.lengths.tolist() == [2, 1]
    assert pairs.y.tolist() == [[1, 3, 2, 0, 0, 0], [1, 5, 4, 3, 2, 0]]
    assert pairs.y_lengths.tolist() == [3, 5]


def test_tensors_become_pairs() -> None:
    pairs = sequence_pairs([("ab", "x"), ("c", "zyx")], SOURCE, TARGET, (3, 6))
    x = pairs.x.masked_fill(pairs.x == 0, -1)  # the padding may be anything
    data = dc.from_tensors(x, pairs.y, lengths=pairs.lengths, y_lengths=pairs.y_lengths)
    assert isinstance(data.train, SequencePairs)
    assert data.kind == "pairs"
    assert dict(data.sizes) == {"vocab": 4, "begin_token": 1, "end_token": 2, "target_vocab": 6}
    result = dc.fit(dc.find("seq2seq_attention")(**data.sizes, units=4), data, steps=2, quiet=True)
    assert result.steps == 2


def test_tensors_become_captioned_images() -> None:
    data = dc.from_tensors(torch.zeros(2, 1, 5, 4), [[1, 3, 2], [1, 2, 0]], y_lengths=[3, 2])
    assert isinstance(data.train, Captioned)
    assert data.kind == "captions"
    assert data.sizes["height"] == 5
    assert (data.sizes["target_vocab"], data.sizes["begin_token"], data.sizes["end_token"]) == (4, 1, 2)


def test_other_tensors_are_refused() -> None:
    x, y, ends = torch.ones(2, 3, dtype=torch.long), torch.tensor([[1, 3, 2], [1, 2, 0]]), torch.tensor([3, 2])
    with pytest.raises(DataError, match="the last token of all targets is the same"):
        dc.from_tensors(x, y, y_lengths=[3, 3])
    with pytest.raises(DataError, match=r"whole numbers of the shape \(N, T\); got none"):
        dc.from_tensors(x, y_lengths=ends)
    with pytest.raises(DataError, match=r"source sequences x are whole numbers .* got torch.float32 of \(2, 3\)"):
        dc.from_tensors(x.float(), y, y_lengths=ends)
    with pytest.raises(DataError, match="tokens of x count from 0, got -1"):
        dc.from_tensors(-x, y, y_lengths=ends)
    with pytest.raises(UsageError, match="images have no lengths"):
        dc.from_tensors(torch.zeros(2, 1, 5, 4), y, lengths=ends, y_lengths=ends)
    with pytest.raises(UsageError, match="give y_lengths, too"):
        dc.from_tensors(x, y, lengths=ends)
