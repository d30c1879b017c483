"""Mistakes are named with what was expected and what came."""

import pytest
import torch

from deepcanon.core import DataError, UsageError
from deepcanon.core.checks import at_least, flat, is_binary, one_of, only_classes


def test_the_first_size_that_is_too_small_is_named() -> None:
    at_least(1, features=1, latent=3)
    with pytest.raises(UsageError, match=r"latent must be at least 2 \(got 1\)"):
        at_least(2, features=2, latent=1)


def test_a_wrong_choice_is_answered_with_the_right_ones() -> None:
    one_of(("a", "b"), letter="b")
    with pytest.raises(UsageError, match=r"letter must be one of a, b \(got 'c'\)"):
        one_of(("a", "b"), letter="c")


def test_images_become_rows_in_the_order_of_their_pixels() -> None:
    x = torch.arange(24.0).reshape(2, 1, 3, 4)
    assert torch.equal(flat(x, 12), x.reshape(2, 12))
    assert flat(torch.zeros(0, 3), 3).shape == (0, 3)


@pytest.mark.parametrize("shape", [(5,), (5, 4), (5, 3, 2)])
def test_examples_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="examples of 5 features"):
        flat(torch.zeros(shape), 5)


def test_only_zeros_and_ones_are_binary() -> None:
    assert is_binary(torch.tensor([0, 1, 1]))
    assert not is_binary(torch.tensor([0.0, 1.0, 1e-6]))
    assert not is_binary(torch.tensor([-1.0, 1.0]))
    assert not is_binary(torch.tensor([0.0, float("nan")]))


def test_classes_are_whole_numbers_below_their_count() -> None:
    only_classes(torch.tensor([0, 2, 1]), 3)
    only_classes(torch.zeros(0, dtype=torch.long), 3)
    only_classes(torch.zeros(2, dtype=torch.long, device="meta"), 3)
    with pytest.raises(DataError, match="classes 0 to 2, got the class -1"):
        only_classes(torch.tensor([2, -1]), 3)
    with pytest.raises(DataError, match=r"got whole numbers of the shape \(2, 1\)"):
        only_classes(torch.zeros(2, 1, dtype=torch.long), 3)
