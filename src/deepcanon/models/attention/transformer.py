"""Transformer (encoder-decoder)."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import nn
from torch.nn.functional import pad, relu

from deepcanon.core import Recipe, SequencePairs, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.attention._stack import Stack
from deepcanon.models.attention._text_to_text import EncoderDecoder, SharedEmbedding
from deepcanon.models.attention._token_positions import Place, Positions, rotating
from deepcanon.models.attention._transformer import Block


class Transformer(EncoderDecoder):
    r"""An encoder and a decoder of attention alone: the target attends to itself and to the encoded source.

    Also known as: encoder-decoder transformer, vanilla transformer.

    .. math:: m = \mathrm{encoder}(\sqrt d\, E_x + P), \qquad
              h = \mathrm{decoder}(\sqrt d\, E_y + P,\; m) \qquad (1)

    .. math:: p(y_{t+1} \mid y_{\le t}, x) = \mathrm{softmax}(E h_t) \qquad (2)

    Each block of the encoder attends to all of the source, each block of the decoder to the target so far and, by
    cross-attention, to the source. E is one table of all tokens, tied to the output layer; d is its width. The paper
    normalizes after each skip connection (``post_norm``), which needs a longer warmup of the learning rate; by default
    the normalizations stand before the layers.
    ``Transformer(37000, 37000, 0, 1, layers=6, heads=8, embedding=512, post_norm=True)`` is the paper's base model. The
    weights of a torch.nn.Transformer load by :func:`deepcanon.interop.transformer_names.load_transformer`.

    Dates as people write them, into ISO 8601, in about a minute on one core::

        deepcanon train transformer --data dates
        deepcanon translate runs/transformer-dates "3 october 2021"

    References:
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762
        | On Layer Normalization in the Transformer Architecture (Xiong et al., 2020; pre-norm and post-norm),
          https://arxiv.org/abs/2002.04745

    Arguments:
        vocab: The number of different tokens of the source; as many as of the target are the same ones.
        target_vocab: The number of different tokens of the target.
        begin_token: The token that every target begins with.
        end_token: The token that every target ends with.
        layers: The number of blocks of the encoder, and of the decoder.
        heads: The number of attention heads of each block.
        embedding: The width of the token embedding d, a multiple of ``heads``.
        inner: The width inside the MLP of a block; unless given, four times ``embedding``.
        post_norm: Whether normalizations stand after the skip connections, as in the paper, and not before the layers.
        positions: "sinusoidal", "learned", "rotary", "relative" (a bias of self-attention) or "none".
        longest: The most tokens of a source or target for which positions are learned.
        dropout: The dropout probability of embeddings, attention weights and what a block adds.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128. None of
            these shares its weights with E.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine:warmup=100", batch_size=64, epochs=4, clip="norm:1.0")

    def __init__(
        self,
        vocab: int,
        target_vocab: int,
        begin_token: int,
        end_token: int,
        layers: int = 2,
        heads: int = 4,
        embedding: int = 64,
        inner: int | None = None,
        post_norm: bool = False,
        positions: Place = "sinusoidal",
        longest: int = 512,
        dropout: float = 0.0,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, target_vocab, begin_token, end_token)
        at_least(1, layers=layers, heads=heads, embedding=embedding, longest=longest)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a value, from 0 to below 1 (got {dropout})")

        def stack(**options: Any) -> Stack:
            blocks = (
                Block(
                    embedding, heads, dropout, relu, post_norm=post_norm, inner=inner,
                    attention=rotating(positions, embedding, heads, dropout), **options,
                )
                for _ in range(layers)
            )  # fmt: skip
            return Stack(blocks, Positions(positions, embedding, heads, longest), nn.LayerNorm(embedding), dropout)

        self.encoder, self.decoder = stack(), stack(memory=embedding)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
        self.in_scale = embedding**0.5  # eq. (1)
        self.token_embedding = SharedEmbedding(vocab, target_vocab, embedding)  # E of eq. (2)
        nn.init.normal_(self.token_embedding.weight, std=embedding**-0.5)
        if output != "softmax":
            self._head(output, embedding)

    @classmethod
    def example(cls) -> tuple[Self, SequencePairs]:
        x = torch.randint(4, (12, 4), generator=torch.Generator().manual_seed(0))
        lengths = 1 + torch.arange(12) % 4
        y = pad(2 + x % 2, (1, 1))  # begin, the copy, end
        y = y.scatter(1, lengths.unsqueeze(1) + 1, 1)
        return cls(5, 4, 0, 1, layers=1, heads=2, embedding=8), SequencePairs(x, lengths, y, lengths + 2)
