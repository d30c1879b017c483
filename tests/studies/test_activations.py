"""The table of properties against closed forms, and what small slopes do to a deep net."""

import math

import pytest

from deepcanon.models.feedforward.mlp import MLP
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.studies.activations import NAMES, activations, properties

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
    "swish": (0, 0.5, 0.5, SWISH_BOUND, "left"),
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


def test_small_slopes_stop_gradients_and_learning() -> None:
    depth = 4
    found = activations(MLP, depth=depth, width=32, epochs=2, lr=0.1)
    results = found.numbers["activations"]
    assert all(len(result["backward"]) == depth + 1 for result in results.values())
    sigmoid, tanh = (results[name]["backward"] for name in ("sigmoid", "tanh"))
    # With weights that keep gradients, each logistic layer multiplies the square by at most 1/16.
    assert (sigmoid[0] / sigmoid[depth - 1]) ** (1 / (depth - 1)) == pytest.approx(1 / 16, rel=0.35)
    assert tanh[0] > 0.2 * tanh[depth - 1]
    assert results["tanh"]["accuracy"] > results["sigmoid"]["accuracy"] + 0.3
    says = found.says[NAMES.index("sigmoid")]
    assert says.startswith("sigmoid: f(0) = 0.5, f'(0) = 0.25, |f'| ≤ 0.25, saturates both sides; reaches")
