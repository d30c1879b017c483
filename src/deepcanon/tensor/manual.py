r"""Backpropagation by hand: the four equations of a multilayer perceptron for any activations and any cost.

With inputs in rows, :math:`z^l = a^{l-1} W^{l\top} + b^l` and :math:`a^l = \sigma_l(z^l)`:

.. math::
    \delta^L = \nabla_a C \odot \sigma_L'(z^L) \quad (BP1) \qquad
    \delta^l = (\delta^{l+1} W^{l+1}) \odot \sigma_l'(z^l) \quad (BP2)

.. math::
    \frac{\partial C}{\partial b^l} = \sum_n \delta^l_n \quad (BP3) \qquad
    \frac{\partial C}{\partial W^l} = \delta^{l\top} a^{l-1} \quad (BP4)

References:
    | Learning representations by back-propagating errors (Rumelhart, Hinton and Williams, 1986),
      https://www.nature.com/articles/323533a0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from deepcanon.tensor.elementwise import relu, sigmoid
from deepcanon.tensor.networks import cross_entropy, mean_squared_error, softmax

Array = np.ndarray[Any, Any]


class Activation(NamedTuple):
    """A function of each element and its derivative."""

    value: Any
    slope: Any


class Cost(NamedTuple):
    """A cost of outputs and targets, a mean over examples, and its derivative by the outputs."""

    value: Any
    slope: Any


IDENTITY = Activation(lambda z: z, np.ones_like)
SIGMOID = Activation(sigmoid, lambda z: sigmoid(z) * (1 - sigmoid(z)))
TANH = Activation(np.tanh, lambda z: 1 - np.tanh(z) ** 2)
RELU = Activation(relu, lambda z: (z > 0).astype(z.dtype))

SQUARED_ERROR = Cost(mean_squared_error, lambda a, t: 2 * (a - t) / a.size)
SOFTMAX_CROSS_ENTROPY = Cost(cross_entropy, lambda a, t: (softmax(a) - np.eye(a.shape[-1])[t]) / len(a))


class Layer(NamedTuple):
    """A layer's weights (out, in), bias (out,) and activation."""

    w: Array
    b: Array
    activation: Activation


class Slopes(NamedTuple):
    """The derivative of the cost by a layer's weighted input z, its weights and its bias."""

    delta: Array
    w: Array
    b: Array


def forward(layers: Sequence[Layer], x: Array) -> tuple[list[Array], list[Array]]:
    """The weighted inputs z and the activations a of all layers; the first activation is the input."""
    zs, activations = [], [x]
    for layer in layers:
        zs.append(activations[-1] @ layer.w.T + layer.b)
        activations.append(layer.activation.value(zs[-1]))
    return zs, activations


def backpropagate(layers: Sequence[Layer], x: Array, target: Array, cost: Cost) -> tuple[Any, list[Slopes]]:
    """The cost, and its derivatives layer by layer."""
    zs, activations = forward(layers, x)
    back = cost.slope(activations[-1], target)
    slopes: list[Slopes] = []
    for number in reversed(range(len(layers))):
        layer = layers[number]
        delta = back * layer.activation.slope(zs[number])  # BP1 for the last layer, BP2 for the others
        slopes.append(Slopes(delta, w=delta.T @ activations[number], b=delta.sum(0)))  # BP4, BP3
        back = delta @ layer.w
    return cost.value(activations[-1], target), slopes[::-1]
