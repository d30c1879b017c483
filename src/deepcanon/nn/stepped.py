"""Recurrent layers in Python, step by step, for equations that torch has no kernels of."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear

State = tuple[Tensor, ...]
"""The hidden state h and whatever else is remembered, (layers, B, units) each."""


class SteppedLayers(nn.Module):
    r"""Stacked recurrent layers of which a subclass writes one ``step``.

    .. math:: a_t = W x_t + b, \qquad s_t = r(a_t, s_{t-1}), \qquad s_t = (h_t, \dots) \qquad (1)

    The output of a layer is its hidden state h, which the layer above reads. Weights have the names of torch's, with
    the rows of all gates one below the other. There is one bias in place of torch's two, which only ever act by their
    sum.

    Arguments:
        inputs: The number of input values at each step.
        units: The number of units of a layer.
        layers: The number of layers, each of which reads the one below.
        gates: How many times as many rows as units the weights have.
        parts: The number of parts of a state.
        dropout: The dropout probability between two layers.
    """

    def __init__(self, inputs: int, units: int, layers: int, *, gates: int, parts: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden_size, self.num_layers, self.parts, self.dropout = units, layers, parts, dropout
        rows, bound = gates * units, 1 / math.sqrt(units)
        for layer in range(layers):
            shapes = {"weight_ih": (rows, inputs if layer == 0 else units), "weight_hh": (rows, units), "bias": (rows,)}
            for name, shape in shapes.items():
                self.register_parameter(f"{name}_l{layer}", nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))

    @abstractmethod
    def step(self, layer: int, driven: Tensor, *state: Tensor) -> State:
        """The state of a layer after a step, h first, from what drives it, (B, gates * units), and the state before."""

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The outputs h of the last layer, (T, B, units), and the state of all layers after the last step."""
        if state is None:
            state = (x.new_zeros(self.num_layers, x.shape[1], self.hidden_size),) * self.parts
        kept: list[State] = []
        for layer in range(self.num_layers):
            if layer > 0 and self.dropout > 0:
                x = dropout(x, self.dropout, self.training)
            after, outputs = tuple(part[layer] for part in state), []
            for driven in linear(x, self.weight("weight_ih", layer), self.weight("bias", layer)).unbind(0):
                after = self.step(layer, driven, *after)  # eq. (1)
                outputs.append(after[0])
            x = torch.stack(outputs)
            kept.append(after)
        return x, tuple(torch.stack(part) for part in zip(*kept, strict=True))

    def weight(self, name: str, layer: int) -> Tensor:
        """A weight of a layer by the beginning of its name."""
        return cast(Tensor, getattr(self, f"{name}_l{layer}"))


def init_matrices(layers: nn.Module, units: int) -> None:
    """Initialize layers with the names of torch's weights gate by gate.

    Recurrent matrices are drawn orthogonal, those of the inputs uniform by the rule of Glorot; biases are zero.
    """
    for name, weight in layers.named_parameters():
        for gate in weight.data.split(units):
            if name.startswith("weight_hh"):
                nn.init.orthogonal_(gate)
            elif name.startswith("weight_ih"):
                nn.init.xavier_uniform_(gate)
            elif name.startswith("bias"):
                nn.init.zeros_(gate)


def open_biases(units: int, memory: int | None) -> Tensor:
    """Initial biases of gates that keep the state: 1, or by chrono initialization for a ``memory`` of n steps.

    These are for time spans from 2 to n steps: logarithms of uniform numbers from 1 to n - 1.

    References:
        | An Empirical Exploration of Recurrent Network Architectures (Jozefowicz et al., 2015),
          https://proceedings.mlr.press/v37/jozefowicz15.html
        | Can recurrent neural networks warp time? (Tallec and Ollivier, 2018), https://arxiv.org/abs/1804.11188
    """
    return torch.ones(units) if memory is None else torch.empty(units).uniform_(1, memory - 1).log()
