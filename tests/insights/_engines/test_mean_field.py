"""The recursion of mean squares: Gaussian integrals in closed form, and what it says of chains."""

import math

import pytest
import torch
from scipy import integrate, stats
from torch import nn

from deepcanon.insights._engines import mean_field


@pytest.mark.parametrize("variance", [0.01, 1.0, 1e4])
def test_moments_of_activations_with_a_closed_form(variance: float) -> None:
    for slope in (0.0, 0.2):
        square, steepness = mean_field.moments(nn.LeakyReLU(slope), variance)
        assert square == pytest.approx(variance * (1 + slope**2) / 2, rel=1e-5)
        assert steepness == pytest.approx((1 + slope**2) / 2, rel=1e-5)
    assert mean_field.moments(nn.Identity(), variance) == pytest.approx((variance, 1.0), rel=1e-5)


@pytest.mark.parametrize("variance", [0.5, 30.0])
def test_moments_of_tanh_are_those_of_scipy(variance: float) -> None:
    scale = math.sqrt(variance)
    square, _ = integrate.quad(lambda g: math.tanh(scale * g) ** 2 * stats.norm.pdf(g), -9, 9)
    steepness, _ = integrate.quad(lambda g: math.cosh(scale * g) ** -4 * stats.norm.pdf(g), -9, 9, points=[0])
    assert mean_field.moments(nn.Tanh(), variance) == pytest.approx((square, steepness), rel=1e-5)


def test_selus_fixed_point_is_variance_one() -> None:
    """What the constants of SELU were solved for: unit variance in, unit mean square out."""
    assert mean_field.moments(nn.SELU(), 1.0)[0] == pytest.approx(1.0, abs=1e-5)


def test_sizes_go_through_a_chain_as_the_recursion_says() -> None:
    first, last = nn.Linear(8, 4).double(), nn.Linear(4, 2, bias=False).double()
    nn.init.constant_(first.bias, 3.0)
    chain = [first, nn.ReLU(), nn.Identity(), last]
    w1, w2 = (layer.weight.square().mean().item() for layer in (first, last))
    q1 = 8 * w1 * 5.0 + 9
    assert mean_field.forward(chain, 5.0) == pytest.approx([q1, 4 * w2 * q1 / 2])
    assert mean_field.backward(chain, 5.0, 7.0) == pytest.approx([2 * w2 / 2 * 7.0, 7.0])


def test_networks_outside_the_theory_are_recognized() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(10, 10)
    assert mean_field.is_known([layer, nn.SiLU(), nn.Flatten(), layer])
    assert not mean_field.is_known([layer, nn.Softmax(-1)])
    assert not mean_field.is_known([layer, nn.LayerNorm(10)])
    nn.init.constant_(layer.weight, 0.1)
    assert not mean_field.is_known([layer])
