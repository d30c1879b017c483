"""Group normalization of channels that are stored last: values and derivatives are torch's."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import group_norm

from deepcanon.nn.group_norm import MANY, GroupNorm


def case(groups: int, channels: int) -> tuple[GroupNorm, Tensor]:
    torch.manual_seed(0)
    norm = GroupNorm(groups, channels).double()
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    x = 100 + torch.randn(3, channels, 4, 5, dtype=torch.float64)
    return norm, x.contiguous(memory_format=torch.channels_last).requires_grad_()


@pytest.mark.parametrize(("groups", "channels"), [(1, 6), (3, 6), (6, 6), (2, 4 * MANY), (1, 1)])
def test_values_and_gradients_are_those_of_torch_in_either_layout(groups: int, channels: int) -> None:
    norm, x = case(groups, channels)
    inputs = (x, norm.weight, norm.bias)
    wanted = group_norm(x, groups, norm.weight, norm.bias, norm.eps)
    direction = torch.randn_like(wanted)
    right = torch.autograd.grad(wanted, inputs, direction)
    for layout in (torch.channels_last, torch.contiguous_format):
        found = norm(x.contiguous(memory_format=layout))
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
        for mine, torchs in zip(torch.autograd.grad(found, inputs, direction), right, strict=True):
            torch.testing.assert_close(mine, torchs, rtol=1e-10, atol=1e-10)
        with torch.no_grad():
            torch.testing.assert_close(norm(x.contiguous(memory_format=layout)), wanted, rtol=1e-10, atol=1e-10)


def test_both_derivatives_are_finite_differences() -> None:
    norm, x = case(2, 4)

    def map_of(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(norm, {"weight": weight, "bias": bias}, (x,))
        return found

    x = (x.detach()[:1, :, :2, :2] - 100).contiguous(memory_format=torch.channels_last).requires_grad_()
    assert norm._slow_in_torch(x)
    assert gradcheck(map_of, (x, norm.weight, norm.bias))
    assert gradgradcheck(map_of, (x, norm.weight, norm.bias))


def test_the_layout_is_kept_and_so_are_the_names_of_the_state() -> None:
    norm, x = case(3, 6)
    assert norm(x).is_contiguous(memory_format=torch.channels_last)
    assert list(norm.state_dict()) == ["weight", "bias"]
