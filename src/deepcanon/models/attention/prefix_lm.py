"""Prefix language model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, pad

from deepcanon.core import Recipe, SequencePairs, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.padding import known_tokens
from deepcanon.models._translator import Translator
from deepcanon.models.attention._text_to_text import ROOM, SharedEmbedding
from deepcanon.models.attention._token_positions import Positions
from deepcanon.models.attention._transformer import Block, BlockCache, init_weights, weights_of_blocks

Added = Literal["learned", "sinusoidal"]


@dataclass(frozen=True)
class Decoding:
    """The state of decoding: lengths of the prefixes, (B,), the tokens that were read, padding included, and caches."""

    lengths: Tensor
    prefix: int
    size: int
    caches: list[BlockCache]

    def select(self, rows: Tensor) -> Self:
        """The state of these rows."""
        caches = [cache.select(rows) for cache in self.caches]
        return replace(self, lengths=self.lengths.index_select(0, rows), caches=caches)


class PrefixLM(Translator):
    r"""A decoder-only transformer that sees all of a prefix at once and continues it token by token.

    Also known as: non-causal decoder, prefix decoder, unified language model (UniLM).

    .. math:: m_{ij} = [j \le n] \lor [j \le i], \qquad
              h = \mathrm{block}_L(\cdots \mathrm{block}_1(E_{(x, y)} + P)) \qquad (1)

    .. math:: p(y_{t+1} \mid y_{\le t}, x) = \mathrm{softmax}(E\, \mathrm{norm}(h_{n+t})) \qquad (2)

    The prefix is the source x of n tokens, the target y follows it in the same row: position i attends to position j
    where the mask m is true, so that the prefix is read in both directions and the target is causal. One stack of
    blocks does the work of an encoder and a decoder. E is one table of all tokens, tied to the output layer.
    ``NAME:prefix`` splits a text at random places into prefixes and what follows them.

    Dates, and the embedded text::

        deepcanon train prefix_lm --data dates
        deepcanon train prefix_lm --data text:prefix

    References:
        | Generating Wikipedia by Summarizing Long Sequences (Liu et al., 2018), https://arxiv.org/abs/1801.10198
        | Unified Language Model Pre-training for Natural Language Understanding and Generation (Dong et al., 2019),
          https://arxiv.org/abs/1905.03197
        | Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (Raffel et al., 2020;
          section 3.2.1), https://arxiv.org/abs/1910.10683

    Arguments:
        vocab: The number of different tokens of the source; as many as of the target are the same ones.
        target_vocab: The number of different tokens of the target.
        begin_token: The token that every target begins with.
        end_token: The token that every target ends with.
        layers: The number of blocks.
        heads: The number of attention heads of each block.
        embedding: The width of the token embedding, a multiple of ``heads``.
        positions: "learned" or "sinusoidal"; the target's go on where the prefix ends.
        longest: The most tokens of prefix and target for which positions are learned.
        dropout: The dropout probability of embeddings, attention weights and what a block adds.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128. None of
            these shares its weights with E.
    """

    recipe = Recipe(
        optimizer="adamw:betas=0.9/0.99,weight_decay=0.1",
        lr=2e-3,
        schedule="cosine:warmup=100,end=0.1",
        batch_size=64,
        epochs=4,
        clip="norm:1.0",
    )

    def __init__(
        self,
        vocab: int,
        target_vocab: int,
        begin_token: int,
        end_token: int,
        layers: int = 3,
        heads: int = 4,
        embedding: int = 64,
        positions: Added = "sinusoidal",
        longest: int = 512,
        dropout: float = 0.0,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, target_vocab, begin_token, end_token)
        at_least(1, layers=layers, heads=heads, embedding=embedding, longest=longest)
        one_of(get_args(Added), positions=positions)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a value, from 0 to below 1 (got {dropout})")
        self.dropout = dropout
        self.token_embedding = SharedEmbedding(vocab, target_vocab, embedding)  # E
        self.positions = Positions(positions, embedding, heads, longest)  # P
        self.blocks = nn.ModuleList(Block(embedding, heads, dropout, gelu) for _ in range(layers))
        self.norm = nn.LayerNorm(embedding)
        init_weights(self, layers, std=embedding**-0.5)
        if output != "softmax":
            self._head(output, embedding)

    @classmethod
    def example(cls) -> tuple[Self, SequencePairs]:
        x = torch.randint(4, (12, 4), generator=torch.Generator().manual_seed(0))
        lengths = 1 + torch.arange(12) % 4
        y = pad(2 + x % 2, (1, 1))  # begin, the copy, end
        y = y.scatter(1, lengths.unsqueeze(1) + 1, 1)
        return cls(5, 4, 0, 1, layers=1, heads=2, embedding=8), SequencePairs(x, lengths, y, lengths + 2)

    def read(self, tokens: Tensor, state: Decoding | None) -> tuple[Tensor, Decoding]:
        """The logits of the next token after each of the target tokens (B, t), and the state after the last."""
        if state is not None:
            h = self._states(self.token_embedding(tokens), state)
            return self._tied(h, self.token_embedding), replace(state, size=state.size + tokens.shape[1])
        x, lengths = self.source(tokens.shape[0])
        state = Decoding(lengths, x.shape[1], 0, [BlockCache.empty(x.shape[1] + ROOM) for _ in self.blocks])
        return self._first(x, tokens, state), replace(state, size=x.shape[1] + tokens.shape[1])

    def outputs(self, tokens: Tensor) -> Tensor:
        """The logits after each token of whole rows, all at once, without caches."""
        x, lengths = self.source(tokens.shape[0])
        return self._first(x, tokens, Decoding(lengths, x.shape[1], 0, []))

    @torch.no_grad()
    def alignment(
        self, x: Tensor, y: Tensor, *, lengths: Tensor | None = None, y_lengths: Tensor | None = None
    ) -> Tensor:
        """The attention of each target token but the first to each source token, (B, T - 1, S).

        It is the mean over all heads of all layers; the rest of its attention goes to the target itself.
        """
        return self.cross_attention_maps(x, y, lengths=lengths, y_lengths=y_lengths).mean((0, 2))

    @torch.no_grad()
    def cross_attention_maps(
        self, x: Tensor, y: Tensor, *, lengths: Tensor | None = None, y_lengths: Tensor | None = None
    ) -> Tensor:
        """The attention of each target token but the first to the source, (layers, B, heads, T - 1, S)."""
        known = known_tokens(y, y_lengths, self.vocab)[:, :-1]
        tokens, size = self.given(x if lengths is None else (x, lengths)).source(len(y))
        h, mask = self._placed(self._joined(tokens, known), Decoding(size, x.shape[1], 0, []))
        return weights_of_blocks(self.blocks, h, mask)[..., x.shape[1] :, : x.shape[1]]

    def _first(self, x: Tensor, tokens: Tensor, state: Decoding) -> Tensor:
        """The logits after each of the first target tokens, which are read together with their prefixes."""
        h = self._states(self._joined(x, tokens), state)
        return self._tied(h[:, x.shape[1] :], self.token_embedding)  # eq. (2)

    def _joined(self, x: Tensor, tokens: Tensor) -> Tensor:
        return torch.cat([self.token_embedding.of_source(x), self.token_embedding(tokens)], 1)

    def _states(self, h: Tensor, state: Decoding) -> Tensor:
        """The states of tokens that follow those of the state, (B, t, embedding)."""
        h, mask = self._placed(h, state)
        h = dropout(h, self.dropout) if self.dropout and self.training else h
        for number, block in enumerate(self.blocks):
            h = block(h, mask, cache=state.caches[number] if state.caches else None)
        return self.norm(h)  # type: ignore[no-any-return]

    def _placed(self, h: Tensor, state: Decoding) -> tuple[Tensor, Tensor]:
        """Tokens with their positions, and their mask."""
        end = state.size + h.shape[1]
        place = torch.arange(state.size, end, device=h.device).expand(len(h), -1)
        skipped = (state.prefix - state.lengths).unsqueeze(1)  # the padding between a prefix and its target
        place = torch.where(place < state.prefix, place, place - skipped)
        return self.positions.at(h, place), prefix_mask(state.lengths, state.prefix, h.shape[1], end)  # eq. (1)


def prefix_mask(lengths: Tensor, prefix: int, queries: int, keys: int) -> Tensor:
    """Which keys the last so many queries may attend to, (B, 1, queries, keys).

    The first ``prefix`` positions hold prefixes of these lengths, (B,), which all may attend to, and padding, which
    none may; from there on each attends to those up to its own.

    >>> prefix_mask(torch.tensor([2]), prefix=3, queries=5, keys=5)[0, 0].int()
    tensor([[1, 1, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [1, 1, 0, 1, 0],
            [1, 1, 0, 1, 1]], dtype=torch.int32)
    """
    key = torch.arange(keys, device=lengths.device)
    query = torch.arange(keys - queries, keys, device=lengths.device).unsqueeze(1)
    seen = (key < lengths.unsqueeze(1)).unsqueeze(1)  # (B, 1, keys)
    return (seen | ((key >= prefix) & (key <= query))).unsqueeze(1)
