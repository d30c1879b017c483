"""The table of properties against closed forms, and headlines that follow planted numbers."""

import math
from typing import Any

import pytest
import torch

from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.studies.activations import NAMES, gain, properties, sentences

LAMBDA, ALPHA = 1.0507009873554805, 1.6732632423543772
"""The constants of SELU (Klambauer et al., 2017)."""

SWISH_BOUND = 1.0998393194
"""The slope of x sigmoid(x) where its curvature is 0, at x = 2.3994."""

GELU_BOUND = (1 + math.erf(1)) / 2 + math.exp(-1) / math.sqrt(math.pi)
"""At x = sqrt 2, where the slope Phi(x) + x phi(x) is steepest."""

TABLE: dict[Activation, tuple[float, float, float, float, str]] = {
    "relu": (0, 0, 1, 1, "left"),
    "leaky_relu": (0, 0.01, 1, 1, "no"),
    "elu": (0, 1, 1, 1, "left"),
    "selu": (0, LAMBDA * ALPHA, LAMBDA, LAMBDA * ALPHA, "left"),
    "gelu": (0, 0.5, 0.5, GELU_BOUND, "left"),
    "silu": (0, 0.5, 0.5, SWISH_BOUND, "left"),
    "mish": (0, 0.6, 0.6, 1.0884, "left"),
    "softplus": (math.log(2), 0.5, 0.5, 1, "left"),
    "tanh": (0, 1, 1, 1, "both sides"),
    "sigmoid": (0.5, 0.25, 0.25, 0.25, "both sides"),
    "identity": (0, 1, 1, 1, "no"),
    "prelu": (0, 0.25, 1, 1, "no"),
    "arctan": (0, 1, 1, 1, "both sides"),
    "binary_threshold": (1, 1, 1, 1, "both sides"),
    "stochastic_binary": (0.5, 0.25, 0.25, 0.25, "both sides"),
}


@pytest.mark.parametrize("name", NAMES)
def test_properties_are_those_of_the_closed_forms(name: Activation) -> None:
    at_zero, left, right, bound, saturates = TABLE[name]
    found = properties(activation_layer(name))
    assert found["at_zero"] == pytest.approx(at_zero, abs=1e-12)
    assert found["slope_at_zero"] == pytest.approx([left, right], abs=1e-6)
    assert found["bound"] == pytest.approx(bound, abs=2e-3 if name in ("softplus", "mish") else 1e-4)
    assert found["saturates"] == saturates


def test_gains_keep_the_mean_square_of_signals() -> None:
    torch.manual_seed(0)
    z = torch.randn(200_000, dtype=torch.float64)
    for name in NAMES:
        if name in ("binary_threshold", "stochastic_binary"):
            continue
        layer = activation_layer(name).double()
        assert gain(layer) ** 2 * layer(z).detach().square().mean().item() == pytest.approx(1, abs=0.02), name


def test_no_activation_stands_there_twice() -> None:
    x = torch.linspace(-3, 3, 61)
    values = [
        tuple(activation_layer(name).eval()(x).detach().tolist()) for name in NAMES if name != "stochastic_binary"
    ]
    assert len(set(values)) == len(values)


def planted(**accuracies: list[float]) -> dict[str, Any]:
    result = properties(activation_layer("relu")) | {"rate": 0.1}
    return {
        "depth": 5,
        "chance": 0.1,
        "activations": {name: result | {"accuracies": values} for name, values in accuracies.items()},
    }


def test_the_headline_follows_the_numbers() -> None:
    same = planted(relu=[0.9, 0.92, 0.94], tanh=[0.91, 0.92, 0.92], sigmoid=[0.1, 0.11, 0.1])
    assert "relu and tanh cannot be told apart" in sentences(same)[0]
    assert "sigmoid does not train at any rate" in sentences(same)[0]
    clear = planted(relu=[0.6, 0.61, 0.6], tanh=[0.91, 0.92, 0.92], sigmoid=[0.5, 0.51, 0.5])
    assert "tanh is best, with 91.7% ± 1.4%; relu and sigmoid are worse." in sentences(clear)[0]
