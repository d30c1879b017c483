"""LSTM layers: torch's own, fast also for one token, and variants with coupled gates or peepholes."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear

State = tuple[Tensor, Tensor]
"""The hidden state h and the cell state c, (layers, B, units) each."""


class LSTMLayers(nn.LSTM):
    """LSTM layers, ``torch.nn.LSTM``, in which a single step without gradients goes layer by layer.

    The fused kernels of torch pack all weights anew at every call, which for one token costs more than the step.
    """

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:  # type: ignore[override]
        if len(x) > 1 or state is None or torch.is_grad_enabled():
            return super().forward(x, state)
        values, kept = x[0], []
        for layer, before in enumerate(zip(*state, strict=True)):
            values, cell = torch.lstm_cell(values, before, *self.all_weights[layer])
            kept.append((values, cell))
        h, c = (torch.stack(part) for part in zip(*kept, strict=True))
        return values.unsqueeze(0), (h, c)


class LSTMVariant(nn.Module):
    r"""LSTM layers with peephole connections from the cell state to the gates, or coupled input and forget gates.

    .. math:: i_t &= \sigma(W_i x_t + U_i h_{t-1} + p_i \odot c_{t-1} + b_i) \quad\text{or}\quad i_t = 1 - f_t \\
              f_t &= \sigma(W_f x_t + U_f h_{t-1} + p_f \odot c_{t-1} + b_f) \\
              g_t &= \tanh(W_g x_t + U_g h_{t-1} + b_g), \qquad c_t = f_t \odot c_{t-1} + i_t \odot g_t \\
              o_t &= \sigma(W_o x_t + U_o h_{t-1} + p_o \odot c_t + b_o), \qquad h_t = o_t \odot \tanh c_t \qquad (1)

    Rows of the weights are in torch's order i, f, g, o, without i where it is coupled to f. There is one bias in place
    of torch's two, which only ever act by their sum. Peephole weights are initialized at zero, where they change
    nothing.

    References:
        | Recurrent nets that time and count (Gers and Schmidhuber, 2000), https://doi.org/10.1109/IJCNN.2000.861302
        | LSTM: A Search Space Odyssey (Greff et al., 2017), https://arxiv.org/abs/1503.04069

    Arguments:
        inputs: The number of input values at each step.
        units: The number of cells of a layer.
        layers: The number of layers, each of which reads the one below.
        dropout: The dropout probability between two layers.
        coupled: Whether input and forget gate are coupled.
        peepholes: Whether the gates have peephole connections to the cell state.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        layers: int = 1,
        *,
        dropout: float = 0.0,
        coupled: bool = False,
        peepholes: bool = False,
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_layers = units, layers
        self.dropout, self.coupled = dropout, coupled
        rows, bound = (3 if coupled else 4) * units, 1 / math.sqrt(units)
        for layer in range(layers):
            shapes = {"weight_ih": (rows, inputs if layer == 0 else units), "weight_hh": (rows, units), "bias": (rows,)}
            for name, shape in shapes.items():
                self.register_parameter(f"{name}_l{layer}", nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))
            if peepholes:
                self.register_parameter(f"peep_l{layer}", nn.Parameter(torch.zeros(2 if coupled else 3, units)))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The outputs h of the last layer, (T, B, units), and the state of all layers after the last step."""
        if state is None:
            zeros = x.new_zeros(self.num_layers, x.shape[1], self.hidden_size)
            state = (zeros, zeros)
        kept = []
        for layer in range(self.num_layers):
            if layer > 0 and self.dropout > 0:
                x = dropout(x, self.dropout, self.training)
            x, h, c = self._layer(layer, x, state[0][layer], state[1][layer])
            kept.append((h, c))
        h, c = (torch.stack(part) for part in zip(*kept, strict=True))
        return x, (h, c)

    def _layer(self, layer: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        driven = linear(x, self._weight("weight_ih", layer), self._weight("bias", layer))  # (T, B, rows)
        recurrent = self._weight("weight_hh", layer).T
        peep = getattr(self, f"peep_l{layer}", None)
        outputs = []
        for step in driven.unbind(0):
            *gates, g, o = torch.addmm(step, h, recurrent).chunk(3 if self.coupled else 4, 1)
            if peep is not None:
                gates = [gate + p * c for gate, p in zip(gates, peep[:-1], strict=True)]
            f = gates[-1].sigmoid()
            i = 1 - f if self.coupled else gates[0].sigmoid()
            c = f * c + i * g.tanh()  # eq. (1)
            h = (o if peep is None else o + peep[-1] * c).sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), h, c

    def _weight(self, name: str, layer: int) -> Tensor:
        return cast(Tensor, getattr(self, f"{name}_l{layer}"))


def lstm(
    inputs: int, units: int, layers: int, *, dropout: float, coupled: bool, peepholes: bool, memory: int | None
) -> LSTMLayers | LSTMVariant:
    """LSTM layers with initial weights: orthogonal recurrent matrices, and biases that keep the forget gates open.

    The initial bias of the forget gates is 1. With a ``memory`` of n steps it is that of chrono initialization, for
    time spans from 2 to n steps: the biases of the forget gates are logarithms of uniform numbers from 1 to n - 1, and
    those of the input gates are minus these.

    References:
        | An Empirical Exploration of Recurrent Network Architectures (Jozefowicz et al., 2015),
          https://proceedings.mlr.press/v37/jozefowicz15.html
        | Can recurrent neural networks warp time? (Tallec and Ollivier, 2018), https://arxiv.org/abs/1804.11188
    """
    between = dropout if layers > 1 else 0.0
    made: LSTMLayers | LSTMVariant
    if coupled or peepholes:
        made = LSTMVariant(inputs, units, layers, dropout=between, coupled=coupled, peepholes=peepholes)
    else:
        made = LSTMLayers(inputs, units, layers, dropout=between)
    for name, weight in made.named_parameters():
        kind = name.partition("_l")[0]
        if kind == "weight_hh":
            for gate in weight.data.split(units):
                nn.init.orthogonal_(gate)
        elif kind == "weight_ih":
            for gate in weight.data.split(units):
                nn.init.xavier_uniform_(gate)
        elif kind.startswith("bias"):
            nn.init.zeros_(weight)
            if kind != "bias_hh":  # torch's second bias, which is added to the first
                _init_gate_biases(weight.data, units, coupled, memory)
    return made


def _init_gate_biases(bias: Tensor, units: int, coupled: bool, memory: int | None) -> None:
    spans = torch.ones(units) if memory is None else torch.empty(units).uniform_(1, memory - 1).log()
    forget = 0 if coupled else units
    bias[forget : forget + units] = spans
    if memory is not None and not coupled:
        bias[:units] = -spans
