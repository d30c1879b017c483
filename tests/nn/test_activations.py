"""Every activation by name is torch's function of that name."""

from typing import get_args

import pytest
import torch
from torch.nn import functional

from deepcanon.core import UsageError
from deepcanon.nn.activations import Activation, activation_layer


@pytest.mark.parametrize("name", get_args(Activation))
def test_a_name_means_the_function_torch_gives_it(name: Activation) -> None:
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    oracle = getattr(torch, name) if name in ("tanh", "sigmoid") else getattr(functional, name)
    assert torch.equal(activation_layer(name)(x), oracle(x))


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"relu, leaky_relu.*'rellu'"):
        activation_layer("rellu")  # type: ignore[arg-type]
