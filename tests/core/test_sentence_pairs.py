"""Pairs of sentences are selected by rows, are no other kind of batch, and have parts of the same size."""

import pytest
import torch

from deepcanon.core import Batch, DataError, Labeled, LabeledSequences, SentencePairs, Sequences


def pairs() -> SentencePairs:
    x = torch.arange(20).view(4, 5)
    return SentencePairs(x, torch.tensor([5, 3, 4, 5]), x % 2, torch.tensor([0, 1, 1, 0]))


def test_rows_are_selected_with_all_their_parts() -> None:
    chosen = pairs().select(torch.tensor([2, 0]))
    assert chosen.x[:, 0].tolist() == [10, 0]
    assert chosen.lengths.tolist() == [4, 5]
    assert chosen.segments.tolist() == (chosen.x % 2).tolist()
    assert chosen.y.tolist() == [1, 0]
    assert len(chosen) == chosen.weight == 2


def test_no_model_of_other_data_takes_them() -> None:
    assert SentencePairs.is_a(SentencePairs)
    assert not any(SentencePairs.is_a(kind) for kind in (Batch, Labeled, LabeledSequences, Sequences))
    assert not Labeled.is_a(SentencePairs)


def test_parts_of_other_sizes_are_refused() -> None:
    whole = pairs()
    with pytest.raises(DataError, match="got 4 of x, 3 of lengths, 4 of segments, 4 of y"):
        SentencePairs(whole.x, whole.lengths[:3], whole.segments, whole.y)
    with pytest.raises(DataError, match=r"a segment, \(4, 5\); got segments of \(4, 4\)"):
        SentencePairs(whole.x, whole.lengths, whole.segments[:, :4], whole.y)
