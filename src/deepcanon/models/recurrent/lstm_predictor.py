"""Long short-term memory (LSTM) classifier and regressor."""

from __future__ import annotations

from typing import Self

import torch
from torch import nn

from deepcanon.core import LabeledSequences, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.recurrent._recurrent import RecurrentPredictor
from deepcanon.nn.lstm import lstm


class LSTMPredictor(RecurrentPredictor):
    r"""An LSTM that predicts a class or real targets of a sequence, or of each of its positions.

    Also known as: many-to-one RNN, sequence classifier, sequence labeling.

    .. math:: (h_t, c_t) = \mathrm{lstm}(x_t, h_{t-1}, c_{t-1}), \qquad f(x_1 \dots x_n) = V h_n + b \qquad (1)

    The adding problem, the sum of two marked numbers among a hundred, which takes long-term memory, in about a minute
    on one core::

        deepcanon train lstm_predictor --data adding

    References:
        | Long Short-Term Memory (Hochreiter and Schmidhuber, 1997), https://doi.org/10.1162/neco.1997.9.8.1735
        | Can recurrent neural networks warp time? (Tallec and Ollivier, 2018), https://arxiv.org/abs/1804.11188

    Arguments:
        features: The number of real values at each position; for tokens leave it out.
        vocab: The number of different tokens; for real values leave it out.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        every_position: Whether there is a prediction at every position, not one for the whole sequence.
        embedding: The width of the token embedding.
        units: The number of cells of a layer.
        layers: The number of layers.
        dropout: The dropout probability between layers, never from step to step.
        bidirectional: Whether each layer also reads the sequence backward.
        coupled: Whether input and forget gate are coupled.
        peepholes: Whether the gates have peephole connections to the cell state.
        memory: The longest time span, in steps, that the initial gates remember (chrono initialization); without it,
            the initial bias of the forget gates is 1.
        head: The distribution of real targets by name: "gaussian", "heteroscedastic", "bernoulli" or one of
            torch.distributions; without one the loss is the squared error.
    """

    recipe = Recipe(lr=1e-2, schedule="cosine", batch_size=32, epochs=4, clip="norm:1.0")

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
        coupled: bool = False,
        peepholes: bool = False,
        memory: int | None = 100,
        head: str | None = None,
    ) -> None:
        super().__init__(
            features, vocab, classes, targets, every_position, embedding, units, layers, dropout, head, bidirectional
        )
        if memory is not None:
            at_least(2, memory=memory)

        def make(inputs: int, depth: int) -> nn.Module:
            return lstm(inputs, units, depth, dropout=dropout, coupled=coupled, peepholes=peepholes, memory=memory)

        self.recurrent = self.stacked(make, units, layers, bidirectional)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, LabeledSequences]:
        x = torch.randn(32, 5, 2, generator=torch.Generator().manual_seed(0))
        lengths = 2 + torch.arange(32) % 4
        last = x[torch.arange(32), lengths - 1, 0]
        return cls(features=2, classes=2, units=4, memory=5), LabeledSequences(x, (last > 0).long(), lengths)
