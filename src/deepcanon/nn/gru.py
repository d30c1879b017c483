"""GRU layers: torch's own, whose reset gate acts after the product, and the paper's, where it acts before it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from deepcanon.nn.stepped import State, SteppedLayers, init_matrices, open_biases

Reset = Literal["after", "before"]
"""Whether the reset gate acts on the product of the recurrent matrix with the hidden state, or on the state itself."""


class GRULayers(nn.GRU):
    r"""GRU layers, ``torch.nn.GRU``, whose reset gate acts after the product; a state is the tuple (h,).

    .. math:: r_t = \sigma(W_r x_t + U_r h_{t-1} + b_r), \qquad z_t = \sigma(W_z x_t + U_z h_{t-1} + b_z) \\
              n_t = \tanh(W_n x_t + b_n + r_t \odot (U_n h_{t-1} + c_n)), \qquad
              h_t = z_t \odot h_{t-1} + (1 - z_t) \odot n_t \qquad (1)

    A single step without gradients goes layer by layer, which for one token is faster.
    """

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:  # type: ignore[override]
        if len(x) > 1 or state is None or torch.is_grad_enabled():
            outputs, after = super().forward(x, None if state is None else state[0])  # eq. (1)
            return outputs, (after,)
        values, kept = x[0], []
        for weights, before in zip(self.all_weights, state[0], strict=True):
            values = torch.gru_cell(values, before, *weights)
            kept.append(values)
        return values.unsqueeze(0), (torch.stack(kept),)


class ResetBeforeGRU(SteppedLayers):
    r"""GRU layers as the paper has them: the reset gate acts on the hidden state before the product.

    .. math:: r_t = \sigma(W_r x_t + U_r h_{t-1} + b_r), \qquad z_t = \sigma(W_z x_t + U_z h_{t-1} + b_z) \\
              n_t = \tanh(W_n x_t + U_n (r_t \odot h_{t-1}) + b_n), \qquad
              h_t = z_t \odot h_{t-1} + (1 - z_t) \odot n_t \qquad (1)

    Rows of the weights are in torch's order r, z, n. They run step by step in Python.

    References:
        | Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation
          (Cho et al., 2014), https://arxiv.org/abs/1406.1078

    Arguments:
        inputs: The number of input values at each step.
        units: The number of units of a layer.
        layers: The number of layers, each of which reads the one below.
        dropout: The dropout probability between two layers.
    """

    def __init__(self, inputs: int, units: int, layers: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__(inputs, units, layers, gates=3, parts=1, dropout=dropout)

    def step(self, layer: int, driven: Tensor, *state: Tensor) -> State:
        (h,) = state
        gates, candidate = self.weight("weight_hh", layer).split([2 * self.hidden_size, self.hidden_size])
        r, z = torch.addmm(driven[:, : len(gates)], h, gates.T).sigmoid().chunk(2, 1)
        n = torch.addmm(driven[:, len(gates) :], r * h, candidate.T).tanh()
        return (n + z * (h - n),)  # eq. (1)


def gru(
    inputs: int, units: int, layers: int, *, dropout: float, reset: Reset, memory: int | None
) -> GRULayers | ResetBeforeGRU:
    """GRU layers with initial weights: orthogonal recurrent matrices, and biases that let the update gates keep h.

    The initial bias of the update gates is 1; with a ``memory`` of n steps it is that of chrono initialization.
    """
    between = dropout if layers > 1 else 0.0
    kind = GRULayers if reset == "after" else ResetBeforeGRU
    made = kind(inputs, units, layers, dropout=between)
    init_matrices(made, units)
    for name, bias in made.named_parameters():
        if name.startswith("bias") and not name.startswith("bias_hh"):  # torch's second bias is added to the first
            bias.data[units : 2 * units] = open_biases(units, memory)
    return made
