"""Gated recurrent unit (GRU) classifier and regressor."""

from __future__ import annotations

from typing import Self

import torch
from torch import nn

from deepcanon.core import LabeledSequences, Recipe
from deepcanon.core.checks import at_least, one_of
from deepcanon.models.recurrent._recurrent import RecurrentPredictor
from deepcanon.nn.gru import Reset, gru


class GRUPredictor(RecurrentPredictor):
    r"""A GRU that predicts a class or real targets of a sequence, or of each of its positions.

    Also known as: many-to-one RNN, sequence classifier, sequence labeling.

    .. math:: h_t = \mathrm{gru}(x_t, h_{t-1}), \qquad f(x_1 \dots x_n) = V h_n + b \qquad (1)

    The first token of a sequence, asked for at its end, and the adding problem, each in about a minute on one core::

        deepcanon train gru_predictor --data recall
        deepcanon train gru_predictor --data adding

    References:
        | Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation
          (Cho et al., 2014), https://arxiv.org/abs/1406.1078
        | Can recurrent neural networks warp time? (Tallec and Ollivier, 2018), https://arxiv.org/abs/1804.11188

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
        reset: Whether the reset gate acts ``after`` the product with the hidden state, as in torch, or ``before``.
        memory: The longest time span, in steps, that the initial gates remember (chrono initialization); without it,
            the initial bias of the update gates is 1.
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
        reset: Reset = "after",
        memory: int | None = 100,
        head: str | None = None,
    ) -> None:
        super().__init__(
            features, vocab, classes, targets, every_position, embedding, units, layers, dropout, head, bidirectional
        )
        one_of(("after", "before"), reset=reset)
        if memory is not None:
            at_least(2, memory=memory)

        def make(inputs: int, depth: int) -> nn.Module:
            return gru(inputs, units, depth, dropout=dropout, reset=reset, memory=memory)

        self.recurrent = self.stacked(make, units, layers, bidirectional)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, LabeledSequences]:
        x = torch.randn(32, 5, 2, generator=torch.Generator().manual_seed(0))
        lengths = 2 + torch.arange(32) % 4
        last = x[torch.arange(32), lengths - 1, 0]
        return cls(features=2, classes=2, units=4, memory=5), LabeledSequences(x, (last > 0).long(), lengths)
