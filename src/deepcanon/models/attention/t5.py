"""Text-to-text transfer transformer (T5)."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from deepcanon.core import Recipe, SequencePairs, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.attention._stack import Stack
from deepcanon.models.attention._text_to_text import EncoderDecoder, SharedEmbedding
from deepcanon.models.attention._transformer import Block
from deepcanon.nn.bucket_bias import BucketBias

EPSILON = 1e-6


class T5(EncoderDecoder):
    r"""A text-to-text transformer: an encoder-decoder with relative positions and every task as text to text.

    Also known as: text-to-text transformer, span corruption, T5-small, T5-base.

    .. math:: m = \mathrm{encoder}(E_x), \qquad h = \mathrm{decoder}(E_y,\; m), \qquad
              s_{ij} = q_i \cdot k_j + b_{\beta(i - j)} \qquad (1)

    .. math:: p(y_{t+1} \mid y_{\le t}, x) = \mathrm{softmax}(d^{-1/2} E h_t) \qquad (2)

    Positions are relative: a learned bias b of the scores s for each head and bucket of distances, which all layers of
    the encoder share, and all of the decoder. Scores are not scaled, normalizations are those of the root mean square,
    stand before the layers and shift nothing, and no linear layer has a bias. E is one table of all tokens, tied to the
    output layer; d is its width. It is pretrained by span corruption, ``NAME:spans`` of any text: of the source some
    spans are replaced by a sentinel each, and the target holds the sentinels with what they replace.
    ``T5(32128, 32128, 0, 1, layers=6, heads=8, embedding=512, inner=2048)`` is T5-small, which
    ``deepcanon.from_pretrained(folder)`` builds with its weights from a folder of Hugging Face.

    Dates as people write them, into ISO 8601, and spans of the embedded text, in a minute or two on one core each::

        deepcanon train t5 --data dates
        deepcanon train t5 --data text:spans --epochs 12

    References:
        | Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (Raffel et al., 2020),
          https://arxiv.org/abs/1910.10683
        | Root Mean Square Layer Normalization (Zhang and Sennrich, 2019), https://arxiv.org/abs/1910.07467

    Arguments:
        vocab: The number of different tokens of the source; as many as of the target are the same ones.
        target_vocab: The number of different tokens of the target.
        begin_token: The token that every target begins with.
        end_token: The token that every target ends with.
        layers: The number of blocks of the encoder, and of the decoder.
        heads: The number of attention heads of each block.
        embedding: The width of the token embedding d.
        head_dim: The width of a head; unless given, the heads share ``embedding``.
        inner: The width inside the MLP of a block; unless given, four times ``embedding``.
        buckets: The number of buckets of distances, an even number.
        max_distance: The distance from which on all share a bucket.
        dropout: The dropout probability of embeddings, attention weights and what a block adds.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128. None of
            these shares its weights with E.
    """

    recipe = Recipe(lr=3e-3, schedule="cosine:warmup=100", batch_size=64, epochs=4, clip="norm:1.0")

    def __init__(
        self,
        vocab: int,
        target_vocab: int,
        begin_token: int,
        end_token: int,
        layers: int = 2,
        heads: int = 4,
        embedding: int = 64,
        head_dim: int | None = None,
        inner: int | None = None,
        buckets: int = 32,
        max_distance: int = 128,
        dropout: float = 0.0,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, target_vocab, begin_token, end_token)
        at_least(1, layers=layers, heads=heads, embedding=embedding)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a value, from 0 to below 1 (got {dropout})")

        def stack(causal: bool, **options: Any) -> Stack:
            blocks = (
                Block(
                    embedding, heads, dropout, relu, EPSILON, norm="rms", inner=inner, head_dim=head_dim, biases=False,
                    scale=1.0, **options,
                )
                for _ in range(layers)
            )  # fmt: skip
            positions = BucketPositions(heads, buckets, max_distance, causal)  # b of eq. (1)
            return Stack(blocks, positions, nn.RMSNorm(embedding, EPSILON), dropout)

        self.encoder, self.decoder = stack(causal=False), stack(causal=True, memory=embedding)
        self.token_embedding = SharedEmbedding(vocab, target_vocab, embedding)  # E
        self.out_scale = embedding**-0.5  # eq. (2)
        self._init_weights()
        if output != "softmax":
            self._head(output, embedding)

    @classmethod
    def example(cls) -> tuple[Self, SequencePairs]:
        x = torch.randint(2, 5, (12, 4), generator=torch.Generator().manual_seed(0))
        lengths = 1 + torch.arange(12) % 4
        y = pad(2 + x % 2, (1, 1))  # begin, a copy, end
        y = y.scatter(1, lengths.unsqueeze(1) + 1, 1)
        model = cls(5, 5, 0, 1, layers=1, heads=2, embedding=8, head_dim=3, buckets=4, max_distance=4)
        return model, SequencePairs(x, lengths, y, lengths + 2)

    def _init_weights(self) -> None:
        """The initial weights of the paper's code: queries are so small that scores need no scale."""
        nn.init.normal_(self.token_embedding.weight)
        for name, layer in self.named_modules():
            if isinstance(layer, BucketPositions):
                nn.init.normal_(layer.table, std=self.token_embedding.embedding_dim**-0.5)
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            if isinstance(layer, nn.Linear) and name.endswith("attention.projection"):
                queries = layer.out_features // 3
                width = self.hparams["head_dim"] or self.hparams["embedding"] // self.hparams["heads"]
                with torch.no_grad():
                    layer.weight[:queries] *= width**-0.5


class BucketPositions(BucketBias):
    """Relative positions as a bias of attention, by buckets of distances; nothing is added to the tokens."""

    def forward(self, h: Tensor, start: int = 0) -> Tensor:  # type: ignore[override]
        return h

    def bias(self, queries: int, keys: int) -> Tensor:
        return super().forward(queries, keys)
