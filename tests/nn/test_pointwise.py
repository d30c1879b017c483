"""A convolution of one pixel is torch's own, whatever its stride, and does not break memory where that one does."""

import pytest
import torch
from torch import nn

from deepcanon.nn.pointwise import Pointwise


@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_it_is_a_convolution_of_one_pixel_with_that_stride(side: int, stride: int) -> None:
    torch.manual_seed(0)
    ours = Pointwise(3, 5, stride).double()
    theirs = nn.Conv2d(3, 5, 1, stride, bias=False).double()
    theirs.load_state_dict(ours.state_dict())
    x, y = (torch.randn(2, 3, side, side, dtype=torch.float64).requires_grad_() for _ in range(2))
    y.data.copy_(x.data)
    torch.testing.assert_close(ours(x), theirs(y), rtol=1e-12, atol=1e-12)
    ours(x).square().sum().backward()
    theirs(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=1e-12, atol=1e-12)


def test_few_channels_that_lie_last_get_the_right_gradient() -> None:
    torch.manual_seed(0)
    layer = Pointwise(4, 8, stride=2)
    x = torch.randn(32, 4, 32, 32)
    layer(x.to(memory_format=torch.channels_last)).square().sum().backward()
    chosen = x[..., ::2, ::2].double()
    outputs = torch.einsum("bihw,oi->bohw", chosen, layer.weight[..., 0, 0].double())
    wanted = 2 * torch.einsum("bohw,bihw->oi", outputs, chosen)
    assert layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad[..., 0, 0].double(), wanted, rtol=1e-4, atol=1e-2)
