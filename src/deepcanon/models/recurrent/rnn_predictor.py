"""Recurrent neural network (RNN) classifier and regressor."""

from __future__ import annotations

from typing import Self

import torch
from torch import nn

from deepcanon.core import LabeledSequences, Recipe
from deepcanon.core.checks import one_of
from deepcanon.models.recurrent._recurrent import RecurrentPredictor
from deepcanon.nn.rnn import Nonlinearity, rnn


class RNNPredictor(RecurrentPredictor):
    r"""A recurrent network without gates that predicts a class or real targets of a sequence, or of each position.

    Also known as: vanilla RNN, Elman network, many-to-one RNN, sequence classifier, sequence labeling.

    .. math:: h_t = \phi(W x_t + U h_{t-1} + b), \qquad f(x_1 \dots x_n) = V h_n + c \qquad (1)

    With ReLU and the identity as the initial recurrent matrix, the default, it remembers far longer than with tanh. The
    first token of a sequence, asked for at its end, in half a minute on one core, and how far each kind remembers::

        deepcanon train rnn_predictor --data recall
        deepcanon study memory_length

    References:
        | A Simple Way to Initialize Recurrent Networks of Rectified Linear Units (Le et al., 2015),
          https://arxiv.org/abs/1504.00941
        | Finding Structure in Time (Elman, 1990), https://doi.org/10.1207/s15516709cog1402_1
        | Learning long-term dependencies with gradient descent is difficult (Bengio et al., 1994),
          https://doi.org/10.1109/72.279181

    Arguments:
        features: The number of real values at each position; for tokens leave it out.
        vocab: The number of different tokens; for real values leave it out.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        every_position: Whether there is a prediction at every position, not one for the whole sequence.
        embedding: The width of the token embedding.
        units: The number of units of a layer.
        layers: The number of layers.
        dropout: The dropout probability between layers, never from step to step.
        bidirectional: Whether each layer also reads the sequence backward.
        nonlinearity: The function of each step: tanh, relu or identity, with which the network is linear in its inputs.
        head: The distribution of real targets by name: "gaussian", "heteroscedastic", "bernoulli" or one of
            torch.distributions; without one the loss is the squared error.
    """

    recipe = Recipe(lr=1e-3, schedule="cosine", batch_size=32, epochs=4, clip="norm:1.0")

    def __init__(
        self,
        features: int | None = None,
        vocab: int | None = None,
        classes: int | None = None,
        targets: int | None = None,
        every_position: bool = False,
        embedding: int = 64,
        units: int = 64,
        layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
        nonlinearity: Nonlinearity = "relu",
        head: str | None = None,
    ) -> None:
        super().__init__(
            features, vocab, classes, targets, every_position, embedding, units, layers, dropout, head, bidirectional
        )
        one_of(("tanh", "relu", "identity"), nonlinearity=nonlinearity)

        def make(inputs: int, depth: int) -> nn.Module:
            return rnn(inputs, units, depth, dropout=dropout, nonlinearity=nonlinearity)

        self.recurrent = self.stacked(make, units, layers, bidirectional)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, LabeledSequences]:
        x = torch.randn(32, 5, 2, generator=torch.Generator().manual_seed(0))
        lengths = 2 + torch.arange(32) % 4
        last = x[torch.arange(32), lengths - 1, 0]
        return cls(features=2, classes=2, units=4, nonlinearity="tanh"), LabeledSequences(x, (last > 0).long(), lengths)
