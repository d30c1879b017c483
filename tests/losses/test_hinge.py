"""The hinge loss is scikit-learn's, and its slopes are those of the margin."""

import pytest
import torch
from sklearn.metrics import hinge_loss
from torch import Generator

from deepcanon.losses.hinge import hinge
from deepcanon.losses.zero_one import zero_one


def scores(*shape: int) -> torch.Tensor:
    return 2 * torch.randn(*shape, dtype=torch.float64, generator=Generator().manual_seed(0))


def test_of_several_classes_it_is_scikit_learns() -> None:
    s, y = scores(60, 4), torch.arange(60) % 4
    assert hinge(s, y).item() == pytest.approx(hinge_loss(y.numpy(), s.numpy(), labels=range(4)), rel=1e-12)


def test_of_two_classes_it_is_scikit_learns_and_that_of_two_scores_half_as_far_apart() -> None:
    s, y = scores(60), torch.arange(60) % 2
    assert hinge(s, y).item() == pytest.approx(hinge_loss(y.numpy(), s.numpy()), rel=1e-12)
    torch.testing.assert_close(hinge(torch.stack([-s / 2, s / 2], 1), y), hinge(s, y))


def test_it_bounds_the_share_of_mistakes_and_vanishes_beyond_the_margin() -> None:
    s, y = scores(60, 4), torch.arange(60) % 4
    each = torch.stack([hinge(s[i : i + 1], y[i : i + 1]) - zero_one(s[i : i + 1], y[i : i + 1]) for i in range(60)])
    assert (each >= 0).all()
    far = (3 * torch.nn.functional.one_hot(y, 4)).double().requires_grad_()
    hinge(far, y).backward()
    assert far.grad is not None
    assert not far.grad.any()


def test_its_gradient_pulls_the_true_class_up_and_the_runner_up_down() -> None:
    s = torch.tensor([[0.0, 0.4, 0.2]], dtype=torch.float64, requires_grad=True)
    hinge(s, torch.tensor([0])).backward()
    assert s.grad is not None
    assert s.grad.tolist() == [[-1, 1, 0]]
