"""Fully connected networks (multilayer perceptrons)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.fast_product import linear
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.nn.feature_pool import FeaturePool


def dense(
    inputs: int,
    outputs: int,
    hidden: Sequence[int] = (),
    *,
    activation: Activation | Callable[[], nn.Module] = "relu",
    dropout: float = 0.0,
    pieces: int = 1,
) -> nn.Sequential:
    """A multilayer perceptron: linear layer, activation and dropout per width in ``hidden``, and a linear output layer.

    Without hidden layers it is one linear map. ``activation`` is a name, or a function that makes the layer.
    ``dropout`` is the probability to drop a hidden unit; at 0 there is no dropout layer. With several
    ``pieces`` a hidden unit is the maximum of so many linear maps, before its activation (maxout).

    >>> dense(2, 1, hidden=(8,), activation="tanh")
    Sequential(
      (0): Linear(in_features=2, out_features=8, bias=True)
      (1): Tanh()
      (2): Linear(in_features=8, out_features=1, bias=True)
    )
    """
    for width in hidden:
        at_least(1, hidden=width)
    at_least(1, pieces=pieces)
    if not 0 <= dropout < 1:
        raise UsageError(f"dropout is the probability to drop a unit, from 0 to below 1 (got {dropout})")
    layers: list[nn.Module] = []
    for width in hidden:
        layers.append(nn.Linear(inputs, width * pieces))
        if pieces > 1:
            layers.append(FeaturePool(pieces, dim=-1))
        layers.append(activation() if callable(activation) else activation_layer(activation))
        if dropout > 0:
            layers.append(nn.Dropout(dropout))
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def side_by_side(net: nn.Module, rows: Tensor, others: Tensor) -> Tensor:
    """The outputs of a dense network for each of ``rows``, (B, D), next to each of ``others``, (..., B, E).

    The same as joining both along their last axis, but where a row has several others, the first layer reads it once,
    not once for each of them, and rows that need no gradient, such as the data, get none.
    """
    if others.shape[:-1] == rows.shape[:-1]:  # one product of both is faster than two, whose gradients are joined
        joined: Tensor = net(torch.cat([rows, others], -1))
        return joined
    first, *rest = net.children()
    left, right = first.get_parameter("weight").split([rows.shape[-1], others.shape[-1]], 1)
    h = linear(rows, left, first.get_parameter("bias")) + linear(others, right)
    for layer in rest:
        h = layer(h)
    return h
