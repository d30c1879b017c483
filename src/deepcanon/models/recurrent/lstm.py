"""Long short-term memory (LSTM) language model."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Recipe, Sequences
from deepcanon.core.checks import at_least
from deepcanon.models.recurrent._recurrent import RecurrentLanguage
from deepcanon.nn.lstm import lstm


class LSTM(RecurrentLanguage):
    r"""A recurrent language model of LSTM cells, which keep their content while the forget gate is open.

    Also known as: recurrent neural network (RNN), gated RNN, recurrent language model.

    .. math:: i_t &= \sigma(W_i x_t + U_i h_{t-1} + b_i), \qquad f_t = \sigma(W_f x_t + U_f h_{t-1} + b_f) \\
              g_t &= \tanh(W_g x_t + U_g h_{t-1} + b_g), \qquad o_t = \sigma(W_o x_t + U_o h_{t-1} + b_o) \\
              c_t &= f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh c_t \qquad (1)

    The input, forget and output gates are i, f and o, the candidate is g, the cell state c and the hidden state h. Each
    layer reads the :math:`h_t` of the one below; the logits of the next token are linear in that of the last layer.
    Training is teacher forcing with truncated backpropagation through time. With ``coupled`` gates
    :math:`i_t = 1 - f_t`; with ``peepholes`` the gates also depend on the cell state. These two run step by step in
    Python, the plain form in torch's own kernels.

    The docstrings of the standard library, in a few minutes on one core, and text that continues a prompt::

        deepcanon train lstm --data text
        deepcanon generate runs/lstm-text --prompt "Return the "

    Along the text with the hidden state carried from window to window::

        deepcanon train lstm --data text:stream --batch-size 32 --streams 32

    References:
        | Long Short-Term Memory (Hochreiter and Schmidhuber, 1997), https://doi.org/10.1162/neco.1997.9.8.1735
        | Learning to Forget: Continual Prediction with LSTM (Gers et al., 2000),
          https://doi.org/10.1162/089976600300015015
        | Recurrent Neural Network Regularization (Zaremba et al., 2014), https://arxiv.org/abs/1409.2329

    Arguments:
        vocab: The number of different tokens.
        embedding: The width of the token embedding.
        units: The number of cells of a layer.
        layers: The number of layers.
        dropout: The dropout probability between layers, never from step to step.
        coupled: Whether input and forget gate are coupled.
        peepholes: Whether the gates have peephole connections to the cell state.
        memory: The longest time span, in steps, that the initial gates remember (chrono initialization); without it,
            the initial bias of the forget gates is 1.
        own_inputs: The share of inputs that are the model's own draws in training, one number, or that of the beginning
            and that of the end (scheduled sampling); without, all are true tokens (teacher forcing).
        streams: The number of windows with a hidden state that is carried on, as many as a batch has; with 0 none is.
            Only data in their order, as text:stream gives them, have a state to carry.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128.
    """

    recipe = Recipe(lr=4e-3, schedule="cosine:warmup=100", batch_size=32, epochs=6, clip="norm:1.0")

    def __init__(
        self,
        vocab: int,
        embedding: int = 128,
        units: int = 256,
        layers: int = 1,
        dropout: float = 0.0,
        coupled: bool = False,
        peepholes: bool = False,
        memory: int | None = None,
        own_inputs: tuple[float, ...] = (),
        streams: int = 0,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, embedding, units, layers, dropout, own_inputs, streams, parts=2, output=output)
        if memory is not None:
            at_least(2, memory=memory)
        self.recurrent = lstm(  # eq. (1)
            embedding, units, layers, dropout=dropout, coupled=coupled, peepholes=peepholes, memory=memory
        )

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        start = torch.arange(16).unsqueeze(1)
        x = (start + torch.arange(7) * (1 + start % 2)) % 5
        return cls(vocab=5, embedding=4, units=6, layers=2), Sequences(x, 3 + torch.arange(16) % 5)
