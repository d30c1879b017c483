"""Stacks of transformer blocks: an encoder or a decoder, with positions before and a normalization after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from deepcanon.models.attention._transformer import Block, BlockCache, weights_of_blocks


class Stack(nn.Module):
    r"""Blocks one after the other, as an encoder or a decoder.

    .. math:: f(h) = \mathrm{norm}(\mathrm{block}_L(\cdots \mathrm{block}_1(h + P))) \qquad (1)

    Arguments:
        blocks: The blocks.
        positions: The positions of tokens P, called with tokens and their start; its ``bias(queries, keys)`` is added
            to the scores of attention.
        norm: The last normalization; unless given there is none.
        drop: The dropout probability of the tokens before the blocks and after them, in training.
    """

    def __init__(
        self, blocks: Iterable[Block], positions: nn.Module, norm: nn.Module | None = None, drop: float = 0.0
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.positions: Any = positions
        self.norm = nn.Identity() if norm is None else norm
        self.drop = drop

    def forward(
        self,
        h: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        caches: Sequence[BlockCache] | None = None,
        start: int = 0,
    ) -> Tensor:
        """The tokens (B, T, width) after all blocks; with caches they are those from ``start`` on."""
        bias = self.positions.bias(h.shape[1], start + h.shape[1])
        h = self._dropped(self.positions(h, start))
        for number, block in enumerate(self.blocks):
            cache = caches[number] if caches else None
            h = block(h, mask, causal=causal, bias=bias, memory=memory, memory_mask=memory_mask, cache=cache)
        return self._dropped(self.norm(h))  # eq. (1)

    def empty_caches(self, capacity: int) -> list[BlockCache]:
        """A cache without a token for each block."""
        return [BlockCache.empty(capacity) for _ in self.blocks]

    @torch.no_grad()
    def attention_maps(self, h: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """The weights of self-attention in all blocks, (layers, B, heads, T, T)."""
        bias = self.positions.bias(h.shape[1], h.shape[1])
        return weights_of_blocks(self.blocks, self.positions(h), mask, causal=causal, bias=bias)

    @torch.no_grad()
    def memory_maps(self, h: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        """The weights of cross-attention in all blocks of a decoder, (layers, B, heads, T, S)."""
        bias = self.positions.bias(h.shape[1], h.shape[1])
        h, maps = self.positions(h), []
        for block in self.blocks:
            assert isinstance(block, Block)
            maps.append(block.memory_weights(h, memory, memory_mask, causal=True, bias=bias))
            h = block(h, causal=True, bias=bias, memory=memory, memory_mask=memory_mask)
        return torch.stack(maps)

    def _dropped(self, h: Tensor) -> Tensor:
        return dropout(h, self.drop) if self.drop and self.training else h
