"""Activations by name."""

from __future__ import annotations

from typing import Literal, get_args

from torch import nn

from deepcanon.nn.checks import one_of

Activation = Literal["relu", "leaky_relu", "elu", "selu", "gelu", "silu", "mish", "softplus", "tanh", "sigmoid"]
"""The names, as the annotation of an ``activation`` argument."""


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
}
