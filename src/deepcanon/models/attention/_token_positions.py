"""Positions of tokens in a transformer, to be chosen: an encoding that is added, or a bias of attention."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import DataError, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.nn.attention import MultiHeadAttention
from deepcanon.nn.positions import RelativeBias, sinusoidal

Place = Literal["sinusoidal", "learned", "rotary", "relative", "none"]
"""How a transformer knows where its tokens stand."""


def rotating(kind: Place, width: int, heads: int, drop: float) -> MultiHeadAttention | None:
    """The self-attention of a block with rotary positions; with others there is nothing special about it."""
    return MultiHeadAttention(width, heads, dropout=drop, rotary=True) if kind == "rotary" else None


class Positions(nn.Module):
    """Positions of tokens in a stack of blocks.

    References:
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762
        | RoFormer: Enhanced Transformer with Rotary Position Embedding (Su et al., 2021),
          https://arxiv.org/abs/2104.09864
        | Self-Attention with Relative Position Representations (Shaw et al., 2018), https://arxiv.org/abs/1803.02155

    Arguments:
        kind: "sinusoidal" or "learned", an encoding that is added to the tokens, "relative", a bias of attention for
            each distance, "rotary", by which the blocks rotate queries and keys (nothing is added here), or "none":
            without positions the order of the tokens means nothing.
        width: The width of a token.
        heads: The number of attention heads.
        length: The most tokens of a row, which only learned positions need.
    """

    def __init__(self, kind: Place, width: int, heads: int, length: int | None = None) -> None:
        super().__init__()
        one_of(get_args(Place), positions=kind)
        self.kind = kind
        if kind == "learned":
            if length is None:
                raise UsageError("learned positions are as many as the longest row has tokens: give that number")
            at_least(1, length=length)
            self.table = nn.Parameter(0.02 * torch.randn(length, width))
        if kind == "relative":
            self.relative = RelativeBias(heads)
        if kind == "sinusoidal":
            sinusoidal(1, width)  # which refuses an odd width

    def forward(self, h: Tensor, start: int = 0) -> Tensor:
        """Tokens (B, T, width) with their positions, which count from ``start``."""
        end = start + h.shape[1]
        if self.kind == "sinusoidal":
            return h + _table(_rounded(end), h.shape[2], h.dtype, h.device)[start:end]
        if self.kind == "learned":
            if end > len(self.table):
                raise DataError(f"positions are learned for up to {len(self.table)} tokens; got {end}")
            return h + self.table[start:end]
        return h

    def at(self, h: Tensor, places: Tensor) -> Tensor:
        """Tokens (B, T, width) with the positions ``places`` (B, T), each row with its own."""
        if self.kind == "none":
            return h
        table: Tensor = self(h.new_zeros(1, int(places.max()) + 1, h.shape[2]))[0]
        return h + table[places]

    def bias(self, queries: int, keys: int) -> Tensor | None:
        """The bias of attention from the last so many tokens to all, (heads, queries, keys), if there is one."""
        if self.kind != "relative":
            return None
        bias: Tensor = self.relative(queries, keys)
        return bias


@lru_cache(maxsize=8)
def _table(length: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The sinusoidal encoding, which is the same at every step."""
    return sinusoidal(length, width, dtype=dtype).to(device)


def _rounded(length: int) -> int:
    """The next power of two, so that a text that grows token by token needs few tables."""
    return 1 << (length - 1).bit_length()
