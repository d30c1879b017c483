"""Tied weights: one parameter, two uses."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.nn.transposed import Transposed, TransposedConv, output_padding, transposed


def test_it_is_the_map_of_the_transposed_matrix() -> None:
    layer = nn.Linear(4, 3).double()
    back = Transposed(layer).double()
    nn.init.normal_(back.bias)
    z = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(back(z), z @ layer.weight + back.bias)


def test_the_weight_is_the_other_layers_after_copies_and_conversions() -> None:
    there = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    both: Any = copy.deepcopy(nn.Sequential(there, transposed(there))).double()
    (first, *_), (*_, last) = both
    with torch.no_grad():
        first.weight.fill_(2.0)
    assert torch.equal(last(torch.ones(1, 3, dtype=torch.float64)), torch.full((1, 4), 6.0, dtype=torch.float64))
    assert len(list(both.parameters())) == 6


@pytest.mark.parametrize("sides", [(8, 8), (9, 7), (10, 5)])
def test_it_is_the_adjoint_of_a_convolution(sides: tuple[int, int]) -> None:
    """The product of conv(x) with any y is that of x with the transposed convolution of y."""
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 6, (3, 2), stride=(3, 2), padding=(1, 0), dilation=(1, 2), groups=2, bias=False).double()
    back = TransposedConv(layer, output_padding(layer, sides)).double()
    x = torch.randn(2, 4, *sides, dtype=torch.float64)
    there = layer(x)
    y = torch.randn_like(there)
    torch.testing.assert_close((there * y).sum(), (x * back(y)).sum())


def test_a_padding_by_name_is_refused() -> None:
    with pytest.raises(UsageError, match="padding must be given in numbers"):
        output_padding(nn.Conv2d(1, 1, 3, padding="same"), (8, 8))
