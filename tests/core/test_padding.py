"""The padding may hold anything; every other position must hold a token of the vocabulary."""

import pytest
import torch

from deepcanon.core import DataError
from deepcanon.core.padding import check_lengths, has_padding, known_tokens, without_padding


@pytest.mark.parametrize("padding", [-1, -100, 8, 10**12])
def test_padding_may_hold_anything(padding: int) -> None:
    x = torch.tensor([[1, 7, padding], [2, padding, padding]])
    assert known_tokens(x, torch.tensor([2, 1]), 8).tolist() == [[1, 7, 0], [2, 0, 0]]


@pytest.mark.parametrize("strange", [-1, 8])
def test_a_token_outside_the_vocabulary_is_named(strange: int) -> None:
    x = torch.tensor([[1, 7, 0], [2, strange, 3]])
    with pytest.raises(DataError, match=f"from 0 to 7; got {strange} at position 1 of row 1"):
        known_tokens(x, None, 8)


def test_other_things_than_rows_of_tokens_are_refused() -> None:
    with pytest.raises(DataError, match=r"\(B, T\); got torch.float32 of \(2, 3\)"):
        known_tokens(torch.zeros(2, 3), None, 8)
    with pytest.raises(DataError, match="as many lengths"):
        check_lengths(torch.zeros(2, 3), torch.tensor([[1, 2]]))
    with pytest.raises(DataError, match="lengths from 1 to 3; got from 0 to 4"):
        check_lengths(torch.zeros(2, 3), torch.tensor([0, 4]))


def test_nan_in_the_padding_reaches_no_gradient() -> None:
    x = torch.tensor([[[1.0], [torch.nan]]], requires_grad=True)
    without_padding(x, torch.tensor([1])).sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [1, 0]


def test_lengths_are_those_of_rows() -> None:
    x = torch.zeros(2, 3, dtype=torch.long)
    for lengths in ([3, 4], [0, 3], [-1, 3]):
        with pytest.raises(DataError, match="lengths from 1 to 3"):
            known_tokens(x, torch.tensor(lengths), vocab=5)


def test_rows_of_full_length_stay_as_they_are() -> None:
    x = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert not has_padding(x, torch.tensor([3, 3]))
    assert without_padding(x, torch.tensor([3, 3])) is x
    assert has_padding(x, torch.tensor([3, 2]))
    assert without_padding(x, torch.tensor([3, 2])).tolist() == [[1, 2, 3], [4, 5, 0]]
    assert not has_padding(x[:0], torch.zeros(0, dtype=torch.long))


def test_lengths_that_cannot_be_looked_at_may_leave_padding() -> None:
    """In torch.func the mask is applied whatever the lengths are."""
    x, lengths = torch.arange(6).view(2, 1, 3), torch.tensor([[3], [2]])
    assert torch.func.vmap(without_padding)(x, lengths).tolist() == [[[0, 1, 2]], [[3, 4, 0]]]
