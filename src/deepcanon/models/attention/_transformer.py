"""The transformer block, which also reads on from a key-value cache, the state of decoding, and initial weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.padding import has_padding, valid_positions
from deepcanon.nn.attention import MultiHeadAttention
from deepcanon.nn.kv_cache import KVCache
from deepcanon.nn.linear_attention import LinearAttention, RunningSums
from deepcanon.nn.sparse_attention import LocalAttention

INITIAL_STD = 0.02
"""The standard deviation of the initial weights."""

Norm = Literal["layer", "rms"]
Attention = Literal["softmax", "linear", "local"]


def self_attention(
    kind: Attention, width: int, heads: int, drop: float = 0.0, *, rotary: bool = False, reach: int | None = None
) -> MultiHeadAttention:
    """The self-attention of a block by name: of all tokens, in linear time by kernel features, or within a reach."""
    one_of(get_args(Attention), attention=kind)
    if (kind == "local") is (reach is None):
        raise UsageError(f"local attention, and no other, has a reach (got attention={kind!r}, reach={reach})")
    if reach is not None:
        return LocalAttention(width, heads, reach, dropout=drop, rotary=rotary)
    if kind == "softmax":
        return MultiHeadAttention(width, heads, dropout=drop, rotary=rotary)
    if rotary:
        raise UsageError("linear attention takes positions that are added, learned or sinusoidal: no rotary ones")
    return LinearAttention(width, heads)


class Block(nn.Module):
    r"""A transformer block: self-attention, cross-attention if there is a memory, and a position-wise MLP.

    Each has a skip connection and a normalization, before it (pre-norm) or after it (post-norm):

    .. math:: x \leftarrow x + f(\mathrm{norm}(x)) \qquad \text{or} \qquad
              x \leftarrow \mathrm{norm}(x + f(x)) \qquad (1)

    .. math:: \mathrm{mlp}(x) = W_2\, \phi(W_1 x + b_1) + b_2 \qquad (2)

    References:
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762
        | Language Models are Unsupervised Multitask Learners (Radford et al., 2019; pre-norm),
          https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
        | Root Mean Square Layer Normalization (Zhang and Sennrich, 2019), https://arxiv.org/abs/1910.07467

    Arguments:
        width: The width of the embedding of a token.
        heads: The number of attention heads.
        drop: The dropout probability of attention weights and of what the skip connections add to, in training.
        activation: The activation of the MLP, by default GELU.
        epsilon: The small number under the root of the normalizations.
        norm: The normalization: "layer" or "rms".
        post_norm: Whether it stands after the skip connection.
        inner: The width inside the MLP; unless given, four times ``width``.
        head_dim: The width of a head; unless given, the heads share ``width``.
        memory: The width of the tokens of a memory that cross-attention attends to; without it there is none.
        attention: The self-attention, called as :class:`~deepcanon.nn.attention.MultiHeadAttention` is, which it is
            unless given.
        biases: Whether the linear layers have biases.
        scale: What attention scores are multiplied by; unless given, one over the root of the width of a head.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        drop: float = 0.0,
        activation: Callable[[Tensor], Tensor] = gelu,
        epsilon: float = 1e-5,
        *,
        norm: Norm = "layer",
        post_norm: bool = False,
        inner: int | None = None,
        head_dim: int | None = None,
        memory: int | None = None,
        attention: nn.Module | None = None,
        biases: bool = True,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        inner = 4 * width if inner is None else inner
        at_least(1, width=width, heads=heads, inner=inner)
        one_of(get_args(Norm), norm=norm)
        kind: Any = nn.LayerNorm if norm == "layer" else nn.RMSNorm
        self.drop, self.activation, self.post_norm = drop, activation, post_norm
        self.attention_norm = kind(width, epsilon)
        options: dict[str, Any] = {"bias": biases, "dropout": drop, "head_dim": head_dim, "scale": scale}
        self.attention: Any = attention or MultiHeadAttention(width, heads, **options)
        self.has_memory = memory is not None
        if memory is not None:
            self.memory_norm = kind(width, epsilon)
            self.cross_attention = MultiHeadAttention(width, heads, memory, memory, **options)
        self.mlp_norm = kind(width, epsilon)
        self.up_projection = nn.Linear(width, inner, biases)  # W_1, b_1
        self.down_projection = nn.Linear(inner, width, biases)  # W_2, b_2

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: BlockCache | None = None,
    ) -> Tensor:
        """The tokens (B, T, width) after the block; with a cache they are further tokens after those in it.

        ``mask``, ``causal`` and ``bias`` are those of attention. ``memory`` (B, S, its width) is what cross-attention
        attends to where ``memory_mask`` is True, which is (B, 1, 1, S) for padding.
        """
        if self.has_memory is (memory is None):
            raise UsageError("a block with cross-attention needs a memory, and one without it takes none")
        x = self._attended(x, mask, causal=causal, bias=bias, cache=cache)
        if memory is not None:
            other = None if cache is None else cache.memory
            x = self._around(
                x, self.memory_norm, lambda h: self.cross_attention(h, memory, mask=memory_mask, cache=other)
            )
        return self._around(x, self.mlp_norm, self.mlp)

    def _attended(
        self, x: Tensor, mask: Tensor | None, *, causal: bool, bias: Tensor | None, cache: BlockCache | None = None
    ) -> Tensor:
        """The tokens after self-attention."""
        own = None if cache is None else cache.own
        return self._around(
            x, self.attention_norm, lambda h: self.attention(h, mask=mask, causal=causal, bias=bias, cache=own)
        )

    def mlp(self, x: Tensor) -> Tensor:
        output: Tensor = self.down_projection(self.activation(self.up_projection(x)))  # eq. (2)
        return output

    def new_cache(self, capacity: int) -> BlockCache:
        """Caches without a token, with room for ``capacity`` of them, as the block's own attention needs them."""
        caches = BlockCache.empty(capacity)
        caches.own = self.attention.new_cache(capacity)
        return caches

    def attention_weights(
        self, x: Tensor, mask: Tensor | None = None, *, causal: bool = False, bias: Tensor | None = None
    ) -> Tensor:
        """The weights of self-attention among tokens (B, T, width) that enter the block, (B, heads, T, T)."""
        h = x if self.post_norm else self.attention_norm(x)
        weights: Tensor = self.attention.weights(h, mask=mask, causal=causal, bias=bias)
        return weights

    def memory_weights(
        self,
        x: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
    ) -> Tensor:
        """The weights of cross-attention from tokens (B, T, width) that enter the block, (B, heads, T, S)."""
        h = self._attended(x, None, causal=causal, bias=bias)
        return self.cross_attention.weights(h if self.post_norm else self.memory_norm(h), memory, memory_mask)

    def _around(self, x: Tensor, norm: nn.Module, layer: Callable[[Tensor], Tensor]) -> Tensor:
        """A layer with its skip connection and its normalization."""
        added = layer(x if self.post_norm else norm(x))
        if self.drop and self.training:
            added = dropout(added, self.drop)
        x = x + added
        return norm(x) if self.post_norm else x  # eq. (1)


class BlockCache:
    """The caches of one block: that of its self-attention, and the keys and values of a memory."""

    def __init__(self, own: KVCache | RunningSums, memory: KVCache) -> None:
        self.own, self.memory = own, memory

    @classmethod
    def empty(cls, capacity: int) -> Self:
        """Key-value caches without a token, with room for ``capacity`` of them."""
        return cls(KVCache(capacity), KVCache(1))

    def select(self, rows: Tensor) -> Self:
        return type(self)(self.own.select(rows), self.memory.select(rows))


@dataclass
class DecodingState:
    """The state of decoding: the tokens of the present window, (B, t), and the caches of all blocks."""

    tokens: Tensor
    caches: list[BlockCache]

    def select(self, rows: Tensor) -> Self:
        """The state of these rows, as beam search needs when it keeps some of its hypotheses."""
        return type(self)(self.tokens.index_select(0, rows), [cache.select(rows) for cache in self.caches])

    def reorder(self, rows: Tensor) -> Self:
        """``select`` where this state is needed no more: only what differs is moved, which is little among beams.

        What a cache holds of a position follows from the tokens up to it.
        """
        if len(rows) != len(self.tokens) or any(cache.memory.size for cache in self.caches):
            return self.select(rows)
        tokens = self.tokens.index_select(0, rows)
        differs = (tokens != self.tokens).any(0).nonzero()
        if len(differs):
            for cache in self.caches:
                cache.own.reorder(rows, int(differs[0]))
        return type(self)(tokens, self.caches)


def init_weights(module: nn.Module, blocks: int | None = None, std: float = INITIAL_STD) -> None:
    """Initialize the weights as BERT, Gaussian; with a number of blocks as GPT-2, smaller before skip connections."""
    for name, part in module.named_modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            smaller = blocks is not None and name.endswith(("attention.output", "down_projection"))
            nn.init.normal_(part.weight, std=std / (2 * (blocks or 0)) ** 0.5 if smaller else std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def new_caches(blocks: nn.ModuleList, capacity: int) -> list[BlockCache]:
    """Empty caches of all blocks, with room for ``capacity`` tokens."""
    return [block.new_cache(capacity) for block in blocks if isinstance(block, Block)]


def run_blocks(blocks: nn.ModuleList, x: Tensor, **options: Any) -> Tensor:
    """The tokens after all blocks in turn."""
    for block in blocks:
        x = block(x, **options)
    return x


@torch.no_grad()
def weights_of_blocks(
    blocks: nn.ModuleList,
    x: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
) -> Tensor:
    """The attention weights in all blocks, (layers, B, heads, T, T), where x enters the first of them."""
    maps = []
    for block in blocks:
        assert isinstance(block, Block)
        maps.append(block.attention_weights(x, mask, causal=causal, bias=bias))
        x = block(x, mask, causal=causal, bias=bias)
    return torch.stack(maps)


def padding_mask(x: Tensor, lengths: Tensor) -> Tensor | None:
    """Which keys of rows x (B, T, ...) may be attended to, (B, 1, 1, T); None where no position is padding."""
    return valid_positions(x, lengths)[:, None, None] if has_padding(x, lengths) else None
