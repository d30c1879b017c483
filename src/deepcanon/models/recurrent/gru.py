"""Gated recurrent unit (GRU) language model."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Recipe, Sequences
from deepcanon.core.checks import at_least, one_of
from deepcanon.models.recurrent._recurrent import RecurrentLanguage
from deepcanon.nn.gru import Reset, gru


class GRU(RecurrentLanguage):
    r"""A recurrent language model of gated units, which mix their state with a candidate by an update gate.

    Also known as: recurrent neural network (RNN), gated RNN, recurrent language model.

    .. math:: r_t &= \sigma(W_r x_t + U_r h_{t-1} + b_r), \qquad z_t = \sigma(W_z x_t + U_z h_{t-1} + b_z) \\
              n_t &= \tanh(W_n x_t + b_n + r_t \odot (U_n h_{t-1} + c_n)), \qquad
              h_t = z_t \odot h_{t-1} + (1 - z_t) \odot n_t \qquad (1)

    The reset gate r hides the past from the candidate n, the update gate z keeps it in the state h. So the reset gate
    acts after the product, as in torch and cuDNN. In the paper it acts before, on the hidden state itself, which is
    another network for the same weights: with ``reset="before"``

    .. math:: n_t = \tanh(W_n x_t + U_n (r_t \odot h_{t-1}) + b_n) \qquad (2)

    This form runs step by step in Python, the other in torch's own kernels. Each layer reads the :math:`h_t` of the one
    below; the logits of the next token are linear in that of the last layer.

    The docstrings of the standard library, in a few minutes on one core, and text that continues a prompt::

        deepcanon train gru --data text
        deepcanon generate runs/gru-text --prompt "Return the "

    References:
        | Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation
          (Cho et al., 2014), https://arxiv.org/abs/1406.1078
        | Empirical Evaluation of Gated Recurrent Neural Networks on Sequence Modeling (Chung et al., 2014),
          https://arxiv.org/abs/1412.3555

    Arguments:
        vocab: The number of different tokens.
        embedding: The width of the token embedding.
        units: The number of units of a layer.
        layers: The number of layers.
        dropout: The dropout probability between layers, never from step to step.
        reset: Whether the reset gate acts ``after`` the product with the hidden state, as in torch, or ``before``.
        memory: The longest time span, in steps, that the initial gates remember (chrono initialization); without it,
            the initial bias of the update gates is 1.
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
        reset: Reset = "after",
        memory: int | None = None,
        own_inputs: tuple[float, ...] = (),
        streams: int = 0,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, embedding, units, layers, dropout, own_inputs, streams, parts=1, output=output)
        one_of(("after", "before"), reset=reset)
        if memory is not None:
            at_least(2, memory=memory)
        self.recurrent = gru(  # eqs. (1) and (2)
            embedding, units, layers, dropout=dropout, reset=reset, memory=memory
        )

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        start = torch.arange(16).unsqueeze(1)
        x = (start + torch.arange(7) * (1 + start % 2)) % 5
        return cls(vocab=5, embedding=4, units=6, layers=2), Sequences(x, 3 + torch.arange(16) % 5)
