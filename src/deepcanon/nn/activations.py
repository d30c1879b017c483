"""Activations: those that torch lacks, and all of them by name."""

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
"""The names, as the annotation of an ``activation`` argument."""


class Arctan(nn.Module):
    """The angle whose tangent the input is: like tanh, but slow to saturate, at half of pi."""

    def forward(self, x: Tensor) -> Tensor:
        return x.atan()


class Swish(nn.Module):
    r"""The input times its own gate, as steep as training makes it.

    .. math:: f(x) = x\, \mathrm{sigmoid}(\beta x)

    At :math:`\beta = 1`, where it starts, it is torch's SiLU, at 0 half of the input, and towards infinity the ReLU.

    References:
        | Searching for activation functions (Ramachandran et al., 2017), https://arxiv.org/abs/1710.05941
    """

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.beta * x).sigmoid()


class Softmax(nn.Module):
    r"""Shares of the last dimension that add up to one, as sharp as the temperature is low.

    .. math:: f(x)_i = \frac{e^{x_i / T}}{\sum_j e^{x_j / T}}

    Arguments:
        temperature: :math:`T`; towards 0 the largest input takes all, towards infinity all shares are equal.

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
    """The neuron of McCulloch and Pitts: 1 from 0 on, else 0.

    Its slope is zero, so gradients pass straight through as if it were the identity, but only where the input is
    between -1 and 1: beyond, the unit is far from changing its mind.

    References:
        | A logical calculus of the ideas immanent in nervous activity (McCulloch and Pitts, 1943),
          https://doi.org/10.1007/BF02478259
        | Binarized neural networks (Hubara et al., 2016), https://arxiv.org/abs/1602.02830
    """

    def forward(self, x: Tensor) -> Tensor:
        return _straight_through((x >= 0).to(x.dtype), x.clamp(-1, 1))


class StochasticBinary(nn.Module):
    r"""A unit that fires with a probability: 1 with :math:`\mathrm{sigmoid}(x)`, else 0.

    Gradients pass straight through, as if the probability itself had been passed on. It is what is passed on in
    evaluation, as the mean of the unit.

    References:
        | Estimating or propagating gradients through stochastic neurons for conditional computation (Bengio et al.,
          2013), https://arxiv.org/abs/1308.3432
    """

    def forward(self, x: Tensor) -> Tensor:
        probability = x.sigmoid()
        if not self.training:
            return probability
        return _straight_through(torch.bernoulli(probability.detach()), probability)


def _straight_through(value: Tensor, stand_in: Tensor) -> Tensor:
    """The value, with the gradient of its stand-in; what is added is exactly zero, so the value keeps all its bits."""
    return value + (stand_in - stand_in.detach())


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
