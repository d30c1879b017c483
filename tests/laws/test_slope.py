"""A gradient that is not the slope is found, and by how much it is off."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.laws.slope import slopes


class Doubled(torch.autograd.Function):
    """A square whose gradient was written by hand, and wrong."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square().sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        wrong: Tensor = grad * 4 * x
        return wrong


def test_right_and_wrong_gradients() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(3, 2).double()
    before = layer.weight.detach().clone()
    right = slopes(layer, lambda: layer.weight.square().sum() + layer.bias.exp().sum())
    assert right is not None
    assert right[0] < 1e-6
    assert torch.equal(layer.weight, before)
    wrong = slopes(layer, lambda: Doubled.apply(layer.weight) + layer.bias.exp().sum())  # type: ignore[no-untyped-call]
    assert wrong is not None
    assert wrong[0] == pytest.approx(1, abs=0.01)
    assert "weight" in wrong[2]


def test_without_parameters_there_is_nothing_to_compare() -> None:
    assert slopes(nn.Tanh(), lambda: torch.zeros(())) is None
