"""The engine of encoder-decoder transformers: a source is encoded once, its target decoded with cross-attention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from deepcanon.core.padding import known_tokens
from deepcanon.models._translator import Translator
from deepcanon.models.attention._stack import Stack
from deepcanon.models.attention._transformer import BlockCache, padding_mask
from deepcanon.nn.packed import TiedEmbedding

ROOM = 32
"""The tokens that a cache has room for at first; it grows."""


class SharedEmbedding(TiedEmbedding):
    """One embedding for the tokens of sources and of targets, which is also the output layer.

    Vocabularies of the same size are taken for one and the same. Of others, the tokens of the source follow those of
    the target in the table.

    Arguments:
        vocab: The number of different tokens of the source.
        target_vocab: The number of different tokens of the target.
        width: The width of the embedding.

    >>> SharedEmbedding(5, 3, 2).weight.shape, SharedEmbedding(5, 5, 2).weight.shape
    (torch.Size([8, 2]), torch.Size([5, 2]))
    """

    def __init__(self, vocab: int, target_vocab: int, width: int) -> None:
        self.first_source = 0 if vocab == target_vocab else target_vocab
        self.target_vocab = target_vocab
        super().__init__(self.first_source + vocab, width)

    def of_source(self, x: Tensor) -> Tensor:
        """The embedding of source tokens, (B, S, width)."""
        return self(x + self.first_source)  # type: ignore[no-any-return]

    def output_weight(self) -> Tensor:
        """The vectors of the target tokens, (target_vocab, width)."""
        return self.weight[: self.target_vocab]


@dataclass(frozen=True)
class Decoding:
    """The state of decoding: the encoded source, (B, S, width), its mask, the number of tokens read, and the caches."""

    memory: Tensor
    memory_mask: Tensor | None
    size: int
    caches: list[BlockCache]

    def select(self, rows: Tensor) -> Self:
        """The state of these rows, as beam search needs when it keeps some of its hypotheses."""
        mask = None if self.memory_mask is None else self.memory_mask.index_select(0, rows)
        caches = [cache.select(rows) for cache in self.caches]
        return type(self)(self.memory.index_select(0, rows), mask, self.size, caches)


class EncoderDecoder(Translator):
    """An encoder-decoder transformer; a leaf makes ``token_embedding``, ``encoder`` and ``decoder``.

    What enters the stacks is ``in_scale`` times the embedding, and the logits are of ``out_scale`` times what leaves
    the decoder; None is as it is.
    """

    token_embedding: SharedEmbedding
    encoder: Stack
    decoder: Stack
    in_scale: float | None = None
    out_scale: float | None = None

    def read(self, tokens: Tensor, state: Decoding | None) -> tuple[Tensor, Decoding]:
        """The logits of the next token after each of the target tokens (B, t), and the state after the last."""
        if state is None:
            state = Decoding(*self._encoded(tokens.shape[0]), 0, self.decoder.empty_caches(ROOM))
        return self._decoded(tokens, state, state.caches), replace(state, size=state.size + tokens.shape[1])

    def outputs(self, tokens: Tensor) -> Tensor:
        """The logits after each token of whole rows, all at once, without caches."""
        return self._decoded(tokens, Decoding(*self._encoded(tokens.shape[0]), 0, []))

    @torch.no_grad()
    def alignment(
        self, x: Tensor, y: Tensor, *, lengths: Tensor | None = None, y_lengths: Tensor | None = None
    ) -> Tensor:
        """The attention of each target token but the first to each source token, (B, T - 1, S).

        It is the mean over all heads of all layers.
        """
        return self.cross_attention_maps(x, y, lengths=lengths, y_lengths=y_lengths).mean((0, 2))

    @torch.no_grad()
    def cross_attention_maps(
        self, x: Tensor, y: Tensor, *, lengths: Tensor | None = None, y_lengths: Tensor | None = None
    ) -> Tensor:
        """The cross-attention of each target token but the first, (layers, B, heads, T - 1, S)."""
        known = known_tokens(y, y_lengths, self.vocab)
        memory, mask = self.given(x if lengths is None else (x, lengths))._encoded(len(y))
        return self.decoder.memory_maps(self._target(known[:, :-1]), memory, mask)

    def _source(self, x: Tensor) -> Tensor:
        return _scaled(self.token_embedding.of_source(x), self.in_scale)

    def _target(self, tokens: Tensor) -> Tensor:
        return _scaled(self.token_embedding(tokens), self.in_scale)

    def _encoded(self, rows: int) -> tuple[Tensor, Tensor | None]:
        """The encoded sources of so many targets, and which of their positions are not padding."""
        x, lengths = self.source(rows)
        mask = padding_mask(x, lengths)
        return self.encoder(self._source(x), mask), mask

    def _decoded(self, tokens: Tensor, state: Decoding, caches: list[BlockCache] | None = None) -> Tensor:
        """The logits after each of these target tokens, (B, t, target_vocab)."""
        h = self.decoder(
            self._target(tokens), causal=True, memory=state.memory, memory_mask=state.memory_mask,
            caches=caches, start=state.size,
        )  # fmt: skip
        return self._tied(_scaled(h, self.out_scale), self.token_embedding)


def _scaled(h: Tensor, scale: float | None) -> Tensor:
    return h if scale is None else scale * h
