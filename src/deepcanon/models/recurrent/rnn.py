"""Recurrent neural network (RNN) language model."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Recipe, Sequences
from deepcanon.core.checks import one_of
from deepcanon.models.recurrent._recurrent import RecurrentLanguage
from deepcanon.nn.rnn import Nonlinearity, rnn


class RNN(RecurrentLanguage):
    r"""A recurrent language model without gates: the state is a nonlinear map of the input and the state before.

    Also known as: vanilla RNN, Elman network, simple recurrent network, recurrent language model.

    .. math:: h_t = \phi(W x_t + U h_{t-1} + b) \qquad (1)

    The gradient through k steps is a product of k matrices :math:`\mathrm{diag}(\phi') U`, which vanishes or explodes
    exponentially in k: the insight ``gradient_through_time`` measures it. Each layer reads the :math:`h_t` of the one
    below; the logits of the next token are linear in that of the last layer.

    The docstrings of the standard library, in a minute on one core, and the gradient through time of the result::

        deepcanon train rnn --data text
        deepcanon insight gradient_through_time runs/rnn-text

    References:
        | Finding Structure in Time (Elman, 1990), https://doi.org/10.1207/s15516709cog1402_1
        | On the difficulty of training recurrent neural networks (Pascanu et al., 2013),
          https://arxiv.org/abs/1211.5063

    Arguments:
        vocab: The number of different tokens.
        embedding: The width of the token embedding.
        units: The number of units of a layer.
        layers: The number of layers.
        dropout: The dropout probability between layers, never from step to step.
        nonlinearity: The function of each step: tanh, relu or identity, with which the network is linear in its inputs.
        own_inputs: The share of inputs that are the model's own draws in training, one number, or that of the beginning
            and that of the end (scheduled sampling); without, all are true tokens (teacher forcing).
        streams: The number of windows with a hidden state that is carried on, as many as a batch has; with 0 none is.
            Only data in their order, as text:stream gives them, have a state to carry.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine:warmup=100", batch_size=32, epochs=6, clip="norm:1.0")

    def __init__(
        self,
        vocab: int,
        embedding: int = 128,
        units: int = 256,
        layers: int = 1,
        dropout: float = 0.0,
        nonlinearity: Nonlinearity = "tanh",
        own_inputs: tuple[float, ...] = (),
        streams: int = 0,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, embedding, units, layers, dropout, own_inputs, streams, parts=1, output=output)
        one_of(("tanh", "relu", "identity"), nonlinearity=nonlinearity)
        self.recurrent = rnn(embedding, units, layers, dropout=dropout, nonlinearity=nonlinearity)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        start = torch.arange(16).unsqueeze(1)
        x = (start + torch.arange(7) * (1 + start % 2)) % 5
        return cls(vocab=5, embedding=4, units=6, layers=2), Sequences(x, 3 + torch.arange(16) % 5)
