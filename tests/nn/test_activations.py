"""Every activation by name is the function of that name: torch's where torch has it, else its closed form."""

import math
from typing import get_args

import pytest
import torch
from scipy import special
from torch import Tensor, nn
from torch.nn import functional

from deepcanon.core import UsageError
from deepcanon.nn.activations import Activation, Softmax, Swish, activation_layer

OWN = ("identity", "prelu", "arctan", "swish", "softmax", "binary_threshold", "stochastic_binary")
"""Those that torch has under no name, or with parameters."""

SMOOTH_AT_ZERO: dict[Activation, tuple[float, float, float]] = {
    "identity": (0, 1, 1),
    "sigmoid": (0.5, 0.25, 0.25),
    "tanh": (0, 1, 1),
    "arctan": (0, 1, 1),
    "softplus": (math.log(2), 0.5, 1),
    "swish": (0, 0.5, 1.0998),
    "silu": (0, 0.5, 1.0998),
    "mish": (0, 0.6, 1.0885),
    "gelu": (0, 0.5, 1.1289),
    "elu": (0, 1, 1),
}
"""The value at 0, the slope there, and the largest size of the slope anywhere."""

SATURATION: dict[Activation, tuple[float, float]] = {
    "sigmoid": (0, 1),
    "tanh": (-1, 1),
    "arctan": (-math.pi / 2, math.pi / 2),
    "binary_threshold": (0, 1),
    "stochastic_binary": (0, 1),
}
"""The limits far to the left and far to the right."""


def slopes(layer: nn.Module, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(layer(x).sum(), x)
    return slope


@pytest.mark.parametrize("name", [name for name in get_args(Activation) if name not in OWN])
def test_a_name_means_the_function_torch_gives_it(name: Activation) -> None:
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    oracle = getattr(torch, name) if name in ("tanh", "sigmoid") else getattr(functional, name)
    assert torch.equal(activation_layer(name)(x), oracle(x))


@pytest.mark.parametrize("name", SMOOTH_AT_ZERO)
def test_value_and_slope_at_zero_and_the_bound_of_the_slope(name: Activation) -> None:
    value, slope, bound = SMOOTH_AT_ZERO[name]
    layer, zero = activation_layer(name).double(), torch.zeros(1, dtype=torch.float64)
    assert layer(zero).item() == pytest.approx(value, abs=1e-12)
    assert slopes(layer, zero).item() == pytest.approx(slope, abs=1e-12)
    everywhere = slopes(layer, torch.linspace(-30, 30, 60_001, dtype=torch.float64))
    assert everywhere.abs().max().item() == pytest.approx(bound, abs=1e-4)


@pytest.mark.parametrize("name", SATURATION)
def test_saturating_units_have_their_limits(name: Activation) -> None:
    x = torch.tensor([-1e9, 1e9], dtype=torch.float64)
    torch.testing.assert_close(activation_layer(name)(x), torch.tensor(SATURATION[name], dtype=torch.float64))
    torch.testing.assert_close(slopes(activation_layer(name), x), torch.zeros_like(x), rtol=0, atol=1e-12)


def test_arctan_and_prelu_have_their_closed_forms() -> None:
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    torch.testing.assert_close(activation_layer("arctan")(x), torch.tensor([math.atan(v) for v in x]).double())
    torch.testing.assert_close(slopes(activation_layer("arctan"), x), 1 / (1 + x**2))
    prelu = activation_layer("prelu").double()
    assert torch.equal(prelu(x), torch.where(x < 0, 0.25 * x, x))
    assert [p.numel() for p in prelu.parameters()] == [1]


def test_the_learned_beta_of_swish_goes_from_half_of_the_input_to_the_relu() -> None:
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    swish = Swish().double()
    torch.testing.assert_close(swish(x), functional.silu(x))
    for beta, limit in ((0.0, x / 2), (1e4, x.relu())):
        swish.beta.data.fill_(beta)
        torch.testing.assert_close(swish(x), limit, rtol=0, atol=1e-12)
    swish.beta.data.fill_(0.7)
    (slope,) = torch.autograd.grad(swish(x).sum(), swish.beta)
    gate = (0.7 * x).sigmoid()
    torch.testing.assert_close(slope, (x**2 * gate * (1 - gate)).sum())


def test_softmax_is_that_of_scipy_and_as_sharp_as_its_temperature() -> None:
    x = torch.tensor([[0.3, -1.2, 2.0], [0.0, 0.0, 5.0]], dtype=torch.float64)
    for temperature in (0.5, 1.0, 3.0):
        expected = torch.from_numpy(special.softmax(x.numpy() / temperature, axis=-1))
        torch.testing.assert_close(Softmax(temperature)(x), expected)
    torch.testing.assert_close(activation_layer("softmax")(x), x.softmax(-1))
    torch.testing.assert_close(Softmax(1e-3)(x), torch.eye(3, dtype=torch.float64)[[2, 2]])
    torch.testing.assert_close(Softmax(1e6)(x), torch.full_like(x, 1 / 3), rtol=0, atol=1e-5)
    with pytest.raises(UsageError, match="temperature must be above 0"):
        Softmax(0.0)


def test_a_threshold_is_a_step_whose_gradient_passes_near_it() -> None:
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0])
    layer = activation_layer("binary_threshold")
    assert layer(x).tolist() == [0, 0, 1, 1, 1]
    assert slopes(layer, x).tolist() == [0, 1, 1, 1, 0]


def test_a_stochastic_unit_fires_as_often_as_it_should_with_the_slope_of_its_probability() -> None:
    x = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    layer, probability = activation_layer("stochastic_binary"), x.sigmoid()
    torch.manual_seed(0)
    fired = layer(x.expand(20_000, 3))
    assert fired.unique().tolist() == [0, 1]
    deviation = (probability * (1 - probability) / 20_000).sqrt()
    assert ((fired.mean(0) - probability).abs() < 4 * deviation).all()
    torch.testing.assert_close(slopes(layer, x), probability * (1 - probability))
    assert torch.equal(layer.eval()(x), probability)


def test_a_net_of_threshold_units_learns_exclusive_or_straight_through() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), activation_layer("binary_threshold"), nn.Linear(16, 1))
    x, y = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), torch.tensor([[0.0], [1], [1], [0]])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        functional.binary_cross_entropy_with_logits(net(x), y).backward()
        optimizer.step()
    assert torch.equal((net(x) > 0).float(), y)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"relu, leaky_relu.*'rellu'"):
        activation_layer("rellu")  # type: ignore[arg-type]
