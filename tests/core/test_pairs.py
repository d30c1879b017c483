"""Pairs are selected together, weigh as many tokens as are predicted, and are no one else's batches."""

import pytest
import torch

from deepcanon.core import Batch, Captioned, DataError, Labeled, LabeledSequences, SequencePairs, Sequences


def pairs() -> SequencePairs:
    return SequencePairs(
        x=torch.arange(12).view(3, 4),
        lengths=torch.tensor([4, 1, 2]),
        y=torch.arange(9).view(3, 3),
        y_lengths=torch.tensor([3, 2, 3]),
    )


def test_all_parts_are_selected_together() -> None:
    some = pairs().select(torch.tensor([2, 0]))
    assert some.x.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert some.lengths.tolist() == [2, 4]
    assert some.y.tolist() == [[6, 7, 8], [0, 1, 2]]
    assert some.y_lengths.tolist() == [3, 3]
    assert (pairs().weight, some.weight) == (5, 4)  # the begin token is given


def test_no_other_model_is_given_them() -> None:
    assert SequencePairs.is_a(SequencePairs)
    for other in (Batch, Labeled, Sequences, LabeledSequences, Captioned):
        assert not SequencePairs.is_a(other)
    assert not any(Captioned.is_a(other) for other in (Batch, Labeled, SequencePairs))


def test_captions_belong_to_images() -> None:
    batch = Captioned(torch.zeros(3, 1, 2, 2), torch.ones(3, 4, dtype=torch.long), torch.tensor([4, 2, 3]))
    assert batch.weight == 6
    assert batch.select(torch.tensor([1])).y_lengths.tolist() == [2]
    assert [tuple(part.shape) for part in batch.inputs] == [(3, 1, 2, 2), (3, 4), (3,)]


def test_every_part_has_as_many_rows() -> None:
    with pytest.raises(DataError, match="pairs of sequences have as many rows of each part; got 3 of x, 3 of lengths"):
        SequencePairs(pairs().x, pairs().lengths, pairs().y[:2], pairs().y_lengths)
    with pytest.raises(DataError, match="captioned images have as many rows"):
        Captioned(torch.zeros(2, 1, 2, 2), pairs().y, pairs().y_lengths)
