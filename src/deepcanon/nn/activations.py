"""Activation functions: those that torch lacks, and all of them by name."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import one_of

Activation = Literal[
    "relu",
    "leaky_relu",
    "elu",
    "selu",
    "gelu",
    "silu",
    "mish",
    "softplus",
    "tanh",
    "sigmoid",
    "identity",
    "prelu",
    "arctan",
    "swish",
    "softmax",
    "binary_threshold",
    "stochastic_binary",
]
"""The names of the activations, as the annotation of an ``activation`` argument."""


class Arctan(nn.Module):
    """The arctangent: like tanh, but slow to saturate, at half of pi."""

    def forward(self, x: Tensor) -> Tensor:
        return x.atan()


class Swish(nn.Module):
    r"""The Swish activation: the input times its sigmoid, with a learned steepness.

    .. math:: f(x) = x\, \mathrm{sigmoid}(\beta x)

    At the initial :math:`\beta = 1` it is torch's SiLU, at 0 half of the input, and towards infinity the ReLU.

    References:
        | Searching for activation functions (Ramachandran et al., 2017), https://arxiv.org/abs/1710.05941
    """

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.beta * x).sigmoid()


class Softmax(nn.Module):
    r"""The softmax over the last dimension, with a temperature.

    .. math:: f(x)_i = \frac{e^{x_i / T}}{\sum_j e^{x_j / T}}

    Arguments:
        temperature: :math:`T`; towards 0 it becomes the argmax, towards infinity the uniform distribution.

    >>> Softmax(temperature=2.0)
    Softmax(temperature=2.0)
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise UsageError(f"temperature must be above 0 and finite (got {temperature})")
        self.temperature = temperature

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"

    def forward(self, x: Tensor) -> Tensor:
        return (x / self.temperature).softmax(-1)


class BinaryThreshold(nn.Module):
    """The threshold unit of McCulloch and Pitts: 1 for inputs of at least 0, else 0.

    Its derivative is zero, so the gradient is the straight-through estimator: that of the identity where the input is
    between -1 and 1, and 0 beyond, where the unit is far from switching.

    References:
        | A logical calculus of the ideas immanent in nervous activity (McCulloch and Pitts, 1943),
          https://doi.org/10.1007/BF02478259
        | Binarized neural networks (Hubara et al., 2016), https://arxiv.org/abs/1602.02830
    """

    def forward(self, x: Tensor) -> Tensor:
        return _straight_through((x >= 0).to(x.dtype), x.clamp(-1, 1))


class StochasticBinary(nn.Module):
    r"""A stochastic binary unit: 1 with the probability :math:`\mathrm{sigmoid}(x)`, else 0.

    The gradient is the straight-through estimator, that of the probability. In evaluation the output is the
    probability, the mean of the unit.

    References:
        | Estimating or propagating gradients through stochastic neurons for conditional computation (Bengio et al.,
          2013), https://arxiv.org/abs/1308.3432
    """

    def forward(self, x: Tensor) -> Tensor:
        probability = x.sigmoid()
        if not self.training:
            return probability
        return _straight_through(torch.bernoulli(probability.detach()), probability)


def _straight_through(value: Tensor, surrogate: Tensor) -> Tensor:
    """The value, with the gradient of its surrogate; what is added is exactly zero, so the value keeps all its bits."""
    return value + (surrogate - surrogate.detach())


def activation_layer(name: Activation) -> nn.Module:
    """A new layer that applies the activation of this name, with torch's own constants.

    >>> activation_layer("leaky_relu")
    LeakyReLU(negative_slope=0.01)
    """
    one_of(get_args(Activation), activation=name)
    return _LAYERS[name]()


_LAYERS: dict[Activation, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "identity": nn.Identity,
    "prelu": nn.PReLU,
    "arctan": Arctan,
    "swish": Swish,
    "softmax": Softmax,
    "binary_threshold": BinaryThreshold,
    "stochastic_binary": StochasticBinary,
}
