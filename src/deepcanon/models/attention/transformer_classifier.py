"""Transformer encoder for classes and targets."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, relu

from deepcanon.core import LabeledSequences, Recipe, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.padding import full_lengths, valid_positions
from deepcanon.models._sequence_predictor import SequencePredictor
from deepcanon.models.attention._stack import Stack
from deepcanon.models.attention._token_positions import Place, Positions, rotating
from deepcanon.models.attention._transformer import Block, padding_mask

Pooling = Literal["mean", "sum", "attention", "class"]
Activation = Literal["relu", "gelu"]


class TransformerClassifier(SequencePredictor):
    r"""A transformer encoder that predicts a class or real targets of a sequence, or of each of its positions.

    Also known as: transformer encoder, sequence classifier, sequence labeling.

    .. math:: h = \mathrm{encoder}(W x + w + P), \qquad f(x) = V \sum_t \alpha_t h_t + b \qquad (1)

    .. math:: \alpha_t = 1, \quad \frac1n, \quad \frac{e^{u \cdot h_t}}{\sum_s e^{u \cdot h_s}} \qquad (2)

    The weights :math:`\alpha` of sum, mean and attention pooling are none of the padding's; a class token, which stands
    first and is learned, is the only one that counts with "class". Of tokens, W x is their embedding. Without positions
    P the prediction is the same for every order of the sequence. The weights of a torch.nn.TransformerEncoder load by
    :func:`deepcanon.interop.transformer_names.load_transformer`.

    The adding problem, the sum of two marked numbers among a hundred, in about a minute on one core::

        deepcanon train transformer_classifier --data adding

    References:
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762
        | BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2019; the
          class token), https://arxiv.org/abs/1810.04805

    Arguments:
        features: The number of real values at each position; for tokens leave it out.
        vocab: The number of different tokens; for real values leave it out.
        length: The most positions of a sequence, which only learned positions need.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        every_position: Whether there is a prediction at every position, not one for the whole sequence.
        pooling: How positions become one: their "mean" or "sum", by "attention" to them, or the "class" token.
        layers: The number of blocks.
        heads: The number of attention heads of each block.
        embedding: The width of the embedding of a position, a multiple of ``heads``.
        inner: The width inside the MLP of a block; unless given, four times ``embedding``.
        post_norm: Whether normalizations stand after the skip connections and not before the layers.
        activation: The activation of the blocks: "relu" or "gelu".
        positions: "sinusoidal", "learned", "rotary", "relative" (a bias of attention) or "none".
        dropout: The dropout probability of embeddings, attention weights and what a block adds.
        head: Not an attention head but the distribution of real targets by name: "gaussian", "heteroscedastic",
            "bernoulli" or one of torch.distributions; without one the loss is the squared error.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine:warmup=50", batch_size=64, epochs=1, clip="norm:1.0")

    def __init__(
        self,
        features: int | None = None,
        vocab: int | None = None,
        length: int | None = None,
        classes: int | None = None,
        targets: int | None = None,
        every_position: bool = False,
        pooling: Pooling = "mean",
        layers: int = 2,
        heads: int = 4,
        embedding: int = 32,
        inner: int | None = None,
        post_norm: bool = False,
        activation: Activation = "gelu",
        positions: Place = "sinusoidal",
        dropout: float = 0.0,
        head: str | None = None,
    ) -> None:
        super().__init__(features, vocab, classes, targets, every_position, head)
        at_least(1, layers=layers, heads=heads, embedding=embedding)
        one_of(get_args(Pooling), pooling=pooling)
        one_of(get_args(Activation), activation=activation)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a value, from 0 to below 1 (got {dropout})")
        self.pooling = pooling
        self.embedding = (  # W, w
            nn.Linear(self.features or 0, embedding) if vocab is None else nn.Embedding(vocab, embedding)
        )
        first = int(pooling == "class")
        places = Positions(positions, embedding, heads, None if length is None else length + first)
        function = relu if activation == "relu" else gelu
        blocks = (
            Block(
                embedding, heads, dropout, function, post_norm=post_norm, inner=inner,
                attention=rotating(positions, embedding, heads, dropout),
            )
            for _ in range(layers)
        )  # fmt: skip
        self.encoder = Stack(blocks, places, None if post_norm else nn.LayerNorm(embedding), dropout)
        if pooling == "class":
            self.class_token = nn.Parameter(0.02 * torch.randn(embedding))
        if pooling == "attention":
            self.query = nn.Parameter(torch.zeros(embedding))  # u
        self.head = nn.Linear(embedding, self.outputs)  # V, b

    @classmethod
    def example(cls) -> tuple[Self, LabeledSequences]:
        x = torch.randn(32, 5, 2, generator=torch.Generator().manual_seed(0))
        lengths = 2 + torch.arange(32) % 4
        first = x[torch.arange(32), 0, 0]
        model = cls(features=2, classes=2, layers=1, heads=2, embedding=8)
        return model, LabeledSequences(x, (first > 0).long(), lengths)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The logits, the means of the targets, or the parameters of the head: (B, outputs), or (B, T, outputs)."""
        tokens, size = self._tokens(x, lengths)
        h = self.encoder(tokens, padding_mask(tokens, size))
        outputs: Tensor = self.head(self._pooled(h, size))  # eq. (1)
        return outputs

    @torch.no_grad()
    def attention_maps(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The attention weights among all positions, (layers, B, heads, T, T); a class token is the first."""
        tokens, size = self._tokens(x, lengths)
        return self.encoder.attention_maps(tokens, padding_mask(tokens, size))

    def _tokens(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """The embedded positions, (B, T, embedding), a class token first if there is one, and how many count."""
        h = self.embedding(self._checked(x, lengths))
        size = full_lengths(x) if lengths is None else lengths
        if self.pooling != "class":
            return h, size
        return torch.cat([self.class_token.expand(len(h), 1, -1), h], 1), size + 1

    def _pooled(self, h: Tensor, size: Tensor) -> Tensor:
        """One state of each sequence, (B, embedding), or of each position, (B, T, embedding)."""
        if self.every_position:
            return h[:, 1:] if self.pooling == "class" else h
        if self.pooling == "class":
            return h[:, 0]
        inside = valid_positions(h, size).unsqueeze(2)  # (B, T, 1)
        if self.pooling == "attention":
            weights = (h @ self.query).unsqueeze(2).masked_fill(~inside, -torch.inf).softmax(1)
        else:
            weights = inside.to(h.dtype) / (size.view(-1, 1, 1) if self.pooling == "mean" else 1)
        return (weights * h.masked_fill(~inside, 0)).sum(1)  # eq. (2)
