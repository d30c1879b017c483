"""LSTM layers: torch's own, fast also for one token, and variants with coupled gates or peepholes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepcanon.nn.stepped import State, SteppedLayers, init_matrices, open_biases


class LSTMLayers(nn.LSTM):
    """LSTM layers, ``torch.nn.LSTM``, in which a single step without gradients goes layer by layer.

    The fused kernels of torch pack all weights anew at every call, which for one token costs more than the step.
    """

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:  # type: ignore[override]
        if len(x) > 1 or state is None or torch.is_grad_enabled():
            outputs, after = super().forward(x, state)  # type: ignore[arg-type]
            return outputs, after
        values, kept = x[0], []
        for layer, before in enumerate(zip(*state, strict=True)):
            values, cell = torch.lstm_cell(values, before, *self.all_weights[layer])
            kept.append((values, cell))
        h, c = (torch.stack(part) for part in zip(*kept, strict=True))
        return values.unsqueeze(0), (h, c)


class LSTMVariant(SteppedLayers):
    r"""LSTM layers with peephole connections from the cell state to the gates, or coupled input and forget gates.

    .. math:: i_t &= \sigma(W_i x_t + U_i h_{t-1} + p_i \odot c_{t-1} + b_i) \quad\text{or}\quad i_t = 1 - f_t \\
              f_t &= \sigma(W_f x_t + U_f h_{t-1} + p_f \odot c_{t-1} + b_f) \\
              g_t &= \tanh(W_g x_t + U_g h_{t-1} + b_g), \qquad c_t = f_t \odot c_{t-1} + i_t \odot g_t \\
              o_t &= \sigma(W_o x_t + U_o h_{t-1} + p_o \odot c_t + b_o), \qquad h_t = o_t \odot \tanh c_t \qquad (1)

    Rows of the weights are in torch's order i, f, g, o, without i where it is coupled to f. Peephole weights are
    initialized at zero, where they change nothing.

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
        super().__init__(inputs, units, layers, gates=3 if coupled else 4, parts=2, dropout=dropout)
        self.coupled = coupled
        for layer in range(layers if peepholes else 0):
            self.register_parameter(f"peep_l{layer}", nn.Parameter(torch.zeros(2 if coupled else 3, units)))

    def step(self, layer: int, driven: Tensor, *state: Tensor) -> State:
        h, c = state
        peep = getattr(self, f"peep_l{layer}", None)
        *gates, g, o = torch.addmm(driven, h, self.weight("weight_hh", layer).T).chunk(3 if self.coupled else 4, 1)
        if peep is not None:
            gates = [gate + p * c for gate, p in zip(gates, peep[:-1], strict=True)]
        f = gates[-1].sigmoid()
        i = 1 - f if self.coupled else gates[0].sigmoid()
        c = f * c + i * g.tanh()  # eq. (1)
        return (o if peep is None else o + peep[-1] * c).sigmoid() * c.tanh(), c


def lstm(
    inputs: int, units: int, layers: int, *, dropout: float, coupled: bool, peepholes: bool, memory: int | None
) -> LSTMLayers | LSTMVariant:
    """LSTM layers with initial weights: orthogonal recurrent matrices, and biases that keep the forget gates open.

    The initial bias of the forget gates is 1. With a ``memory`` of n steps it is that of chrono initialization, and
    those of the input gates are minus these.
    """
    between = dropout if layers > 1 else 0.0
    made: LSTMLayers | LSTMVariant
    if coupled or peepholes:
        made = LSTMVariant(inputs, units, layers, dropout=between, coupled=coupled, peepholes=peepholes)
    else:
        made = LSTMLayers(inputs, units, layers, dropout=between)
    init_matrices(made, units)
    for name, bias in made.named_parameters():
        if not name.startswith("bias") or name.startswith("bias_hh"):  # torch's second bias is added to the first
            continue
        keeping, forget = open_biases(units, memory), 0 if coupled else units
        bias.data[forget : forget + units] = keeping
        if memory is not None and not coupled:
            bias.data[:units] = -keeping
    return made
