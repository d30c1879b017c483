"""Masked convolutions: whole ones with zeros in their place, at once and pixel by pixel."""

import torch
from torch.nn.functional import conv2d

from deepcanon.nn.masked_convolution import AboveConv, CausalConv, LeftConv


def test_a_convolution_to_the_left_is_a_convolution_with_a_mask_in_its_last_tap() -> None:
    torch.manual_seed(0)
    inputs, outputs = torch.tensor([0, 1, 2]), torch.tensor([2, 0, 1, 1])
    for strictly in (False, True):
        layer = LeftConv(inputs, outputs, 2, strictly=strictly).double()
        x = torch.randn(2, 3, 4, 5, dtype=torch.float64)
        weight = torch.zeros(4, 3, 5, 5, dtype=torch.float64)
        for o in range(4):
            for i in range(3):
                weight[o, i, 2, :2] = layer.weight[o, i, 0, :2].detach()
                seen = int(inputs[i]) < int(outputs[o]) or (not strictly and int(inputs[i]) == int(outputs[o]))
                weight[o, i, 2, 2] = layer.weight[o, i, 0, 2].item() if seen else 0.0
        torch.testing.assert_close(layer(x), conv2d(x, weight, layer.bias, padding=2))


def test_a_convolution_above_is_a_convolution_whose_lower_rows_are_zero() -> None:
    torch.manual_seed(0)
    layer = AboveConv(2, 3, 2).double()
    x = torch.randn(2, 2, 6, 5, dtype=torch.float64)
    weight = torch.zeros(3, 2, 5, 5, dtype=torch.float64)
    weight[:, :, :3] = layer.weight.detach()
    torch.testing.assert_close(layer(x), conv2d(x, weight, layer.bias, padding=2))


def test_a_causal_convolution_is_one_whose_pixels_after_its_own_are_zero() -> None:
    torch.manual_seed(0)
    degrees = torch.tensor([0, 1])
    layer = CausalConv(degrees, degrees, 2, 2, strictly=True).double()
    x = torch.randn(2, 2, 6, 5, dtype=torch.float64)
    weight = torch.zeros(2, 2, 5, 5, dtype=torch.float64)
    weight[:, :, :3] = layer.weight.detach()
    weight[:, :, 2, 3:] = 0
    weight[:, :, 2, 2] *= torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    torch.testing.assert_close(layer(x), conv2d(x, weight, layer.bias, padding=2))


def test_pixel_by_pixel_and_row_by_row_convolutions_are_those_of_the_image() -> None:
    torch.manual_seed(0)
    degrees, x = torch.tensor([0, 0]), torch.randn(3, 2, 4, 5, dtype=torch.float64)
    rows = AboveConv(2, 3, 2).double()
    row_of = rows.rows(3, 4, 5)
    with torch.no_grad():
        for conv in (CausalConv(degrees, degrees, 1, 2).double(), LeftConv(degrees, degrees, 1).double()):
            step, over, wanted = conv.steps(3, 4, 5), conv.over(x), conv(x)
            for row in range(4):
                for column in range(5):
                    torch.testing.assert_close(step(x[:, :, row, column], row, column), wanted[:, :, row, column])
                    torch.testing.assert_close(over(row, column), wanted[:, :, row, column])
        for row in range(4):
            torch.testing.assert_close(row_of(x[:, :, row], row), rows(x)[:, :, row])
