"""Layers of the plain recurrent network: torch's own with tanh or ReLU, and one without a nonlinearity."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from deepcanon.nn.stepped import State, SteppedLayers, init_matrices

Nonlinearity = Literal["tanh", "relu", "identity"]
"""The function that a plain recurrent network applies at every step."""


SMALL = 0.01
"""The standard deviation of the initial weights of inputs with ReLU."""


class RNNLayers(nn.RNN):
    r"""Layers of the plain recurrent network, ``torch.nn.RNN``; a state is the tuple (h,).

    .. math:: h_t = \phi(W x_t + b + U h_{t-1} + c) \qquad (1)

    A single step without gradients goes layer by layer, which for one token is faster.
    """

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:  # type: ignore[override]
        if len(x) > 1 or state is None or torch.is_grad_enabled():
            outputs, after = super().forward(x, None if state is None else state[0])  # eq. (1)
            return outputs, (after,)
        cell = torch.rnn_tanh_cell if self.nonlinearity == "tanh" else torch.rnn_relu_cell
        values, kept = x[0], []
        for weights, before in zip(self.all_weights, state[0], strict=True):
            values = cell(values, before, *weights)
            kept.append(values)
        return values.unsqueeze(0), (torch.stack(kept),)


class LinearRNN(SteppedLayers):
    r"""Layers of a recurrent network without a nonlinearity, whose gradient through time has a closed form.

    .. math:: h_t = W x_t + U h_{t-1} + b, \qquad \frac{\partial h_t}{\partial h_{t-k}} = U^k \qquad (1)

    Arguments:
        inputs: The number of input values at each step.
        units: The number of units of a layer.
        layers: The number of layers, each of which reads the one below.
        dropout: The dropout probability between two layers.
    """

    def __init__(self, inputs: int, units: int, layers: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__(inputs, units, layers, gates=1, parts=1, dropout=dropout)

    def step(self, layer: int, driven: Tensor, *state: Tensor) -> State:
        return (torch.addmm(driven, state[0], self.weight("weight_hh", layer).T),)  # eq. (1)


def rnn(inputs: int, units: int, layers: int, *, dropout: float, nonlinearity: Nonlinearity) -> RNNLayers | LinearRNN:
    """Layers of the plain recurrent network with initial weights that keep the size of gradients.

    Recurrent matrices are orthogonal. With ReLU, which loses half of any rotation, they are the identity, and those of
    the inputs are small, since a state sums up all that it reads.

    References:
        | A Simple Way to Initialize Recurrent Networks of Rectified Linear Units (Le et al., 2015),
          https://arxiv.org/abs/1504.00941
    """
    between = dropout if layers > 1 else 0.0
    made: RNNLayers | LinearRNN
    if nonlinearity == "identity":
        made = LinearRNN(inputs, units, layers, dropout=between)
    else:
        made = RNNLayers(inputs, units, layers, dropout=between, nonlinearity=nonlinearity)
    init_matrices(made, units)
    for name, weight in made.named_parameters():
        if nonlinearity == "relu" and name.startswith("weight_hh"):
            nn.init.eye_(weight)
        elif nonlinearity == "relu" and name.startswith("weight_ih"):
            nn.init.normal_(weight, std=SMALL)
    return made
