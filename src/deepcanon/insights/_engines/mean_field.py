r"""Mean-field theory of signal propagation in wide networks with random weights: a recursion over the layers.

In a wide layer with independent weights of mean 0, each preactivation :math:`z` is nearly Gaussian:

.. math:: q_l = N_{in}\, \overline{w_l^2}\; E[\sigma(\sqrt{q_{l-1}}\, g)^2] + \overline{b_l^2}, \qquad
    \tilde q_{l-1} = N_{out}\, \overline{w_l^2}\; E[\sigma'(\sqrt{q_{l-1}}\, g)^2]\; \tilde q_l, \qquad g \sim N(0, 1)

where :math:`q_l = E[z_l^2]`, and :math:`\tilde q_l` is the same of the gradient with respect to :math:`z_l`.

References:
    | Exponential expressivity in deep neural networks through transient chaos (Poole et al., 2016),
      https://arxiv.org/abs/1606.05340
    | Deep information propagation (Schoenholz et al., 2017), https://arxiv.org/abs/1611.01232
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.nn.initialize import fans

FARTHEST, FINEST, POINTS = 9.0, 1e-5, 6001
"""The farthest and the finest point of integrals over a Gaussian, and the number of points."""

CENTERED = 6.0
"""Weights with a mean of more than so many standard errors do not count as drawn with mean 0."""

_NOT_POINTWISE = ("softmax", "binary_threshold", "stochastic_binary")
POINTWISE = tuple(type(activation_layer(name)) for name in get_args(Activation) if name not in _NOT_POINTWISE)
"""Elementwise activations with a derivative."""


def moments(activation: nn.Module, variance: float) -> tuple[float, float]:
    r"""The mean square of the activation and of its derivative, over Gaussian inputs of this variance.

    >>> [round(moment, 6) for moment in moments(nn.ReLU(), 3.0)]
    [1.5, 0.5]
    """
    # Near 0 the points lie close: there the corners are, and the slopes of what saturates at once when z is large.
    reach = math.asinh(FARTHEST / FINEST)
    g = FINEST * torch.linspace(-reach, reach, POINTS, dtype=torch.float64).sinh()
    z = (math.sqrt(variance) * g).requires_grad_()
    value: Tensor = copy.deepcopy(activation).double()(z.clone())  # it may work in place
    (slope,) = torch.autograd.grad(value.sum(), z)
    density = (-g.square() / 2).exp()
    total = torch.trapezoid(density, g)
    square, steepness = (torch.trapezoid(f.detach().square() * density, g) / total for f in (value, slope))
    return square.item(), steepness.item()


def forward(layers: Sequence[nn.Module], square: float) -> list[float]:
    """The mean square of the output of each linear layer of a chain, when that of the chain's input is ``square``."""
    return _run(layers, square)[0]


def backward(layers: Sequence[nn.Module], square: float, gradient: float) -> list[float]:
    """The mean square of the gradient at each linear layer of a chain, when that at the last one is ``gradient``."""
    _, slopes = _run(layers, square)
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    found = [gradient]
    for layer, slope in zip(linear[:0:-1], slopes[:0:-1], strict=True):
        found.insert(0, found[0] * slope * fans(layer.weight)[1] * _square(layer.weight))
    return found


def is_known(layers: Sequence[nn.Module]) -> bool:
    """Whether the theory covers the chain: linear layers with centered weights, and elementwise activations."""
    kinds = (nn.Linear, nn.Identity, nn.Flatten, *POINTWISE)
    return all(isinstance(layer, kinds) for layer in layers) and all(
        _centered(layer.weight) for layer in layers if isinstance(layer, nn.Linear)
    )


def _run(layers: Sequence[nn.Module], square: float) -> tuple[list[float], list[float]]:
    """The mean square of each linear layer's output, and that of the derivative of the activations before it."""
    given, slopes, slope = [], [], 1.0
    for layer in layers:
        if isinstance(layer, nn.Linear):
            square = fans(layer.weight)[0] * _square(layer.weight) * square
            square += 0.0 if layer.bias is None else _square(layer.bias)
            given.append(square)
            slopes.append(slope)
            slope = 1.0
        elif isinstance(layer, POINTWISE):
            square, steepness = moments(layer, square)
            slope *= steepness
    return given, slopes


def _square(values: Tensor) -> float:
    return values.detach().double().square().mean().item()


def _centered(weight: Tensor) -> bool:
    values = weight.detach().double()
    error = values.std(correction=0).item() / math.sqrt(values.numel())
    return abs(values.mean().item()) <= CENTERED * error
