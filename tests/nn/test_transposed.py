"""Tied weights: one parameter, two uses."""

import copy
from typing import Any

import torch
from torch import nn

from deepcanon.nn.transposed import Transposed, transposed


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
