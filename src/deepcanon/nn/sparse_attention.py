"""Sparse attention: masks of the usual patterns, and kernels for bands and blocks that do not cost n squared."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.nn.attention import MultiHeadAttention, attention
from deepcanon.nn.kv_cache import KVCache


def band_mask(
    queries: int,
    keys: int,
    reach: int,
    *,
    dilation: int = 1,
    causal: bool = False,
    device: torch.device | None = None,
) -> Tensor:
    """The mask of local attention, (queries, keys): True up to ``reach`` keys to either side, or to the left only.

    With a ``dilation`` they are so many positions apart. The last query stands at the last key. Patterns are combined
    by ``|`` and ``&``: a band and :func:`global_mask` are that of Longformer.

    References:
        | Generating Long Sequences with Sparse Transformers (Child et al., 2019), https://arxiv.org/abs/1904.10509
        | Longformer: The Long-Document Transformer (Beltagy et al., 2020), https://arxiv.org/abs/2004.05150

    >>> band_mask(4, 4, reach=1).int()
    tensor([[1, 1, 0, 0],
            [1, 1, 1, 0],
            [0, 1, 1, 1],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    at_least(0, reach=reach)
    at_least(1, dilation=dilation)
    ago = torch.arange(keys - queries, keys, device=device).unsqueeze(1) - torch.arange(keys, device=device)
    near = (ago.abs() <= reach * dilation) & (ago % dilation == 0)
    return near & (ago >= 0) if causal else near


def global_mask(length: int, positions: Sequence[int], *, device: torch.device | None = None) -> Tensor:
    """The mask of global tokens, (length, length): those at ``positions`` attend to all, and all to them.

    >>> global_mask(4, [0]).int()
    tensor([[1, 1, 1, 1],
            [1, 0, 0, 0],
            [1, 0, 0, 0],
            [1, 0, 0, 0]], dtype=torch.int32)
    """
    chosen = torch.zeros(length, dtype=torch.bool, device=device)
    if not all(-length <= position < length for position in positions):
        raise UsageError(f"global tokens stand at positions of the {length} that there are, got {list(positions)}")
    chosen[list(positions)] = True
    return chosen.unsqueeze(1) | chosen


def block_mask(length: int, size: int, *, device: torch.device | None = None) -> Tensor:
    """The mask of block attention, (length, length): True inside consecutive blocks of ``size`` positions.

    >>> block_mask(4, 3).int()
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 0],
            [1, 1, 1, 0],
            [0, 0, 0, 1]], dtype=torch.int32)
    """
    at_least(1, size=size)
    block = torch.arange(length, device=device) // size
    return block.unsqueeze(1) == block


def local_attention(
    query: Tensor, key: Tensor, value: Tensor, reach: int, *, dilation: int = 1, causal: bool = False
) -> Tensor:
    """Attention under a :func:`band_mask`, of queries, keys and values (..., T, d), in a time that grows as T * reach.

    The positions of every residue of the dilation are a sequence of their own, which is cut into chunks as long as the
    reach; a chunk of queries attends to its own keys and to those of its neighbors, under the mask of the band.

    >>> x = torch.ones(1, 4, 2)
    >>> local_attention(x, x, torch.tensor([[[0.0], [3.0], [6.0], [9.0]]]), reach=1).flatten()
    tensor([1.5000, 3.0000, 6.0000, 7.5000])
    """
    at_least(0, reach=reach)
    at_least(1, dilation=dilation)
    length = query.shape[-2]
    if key.shape[-2] != length:
        raise UsageError(f"local attention is among as many queries as keys, got {length} and {key.shape[-2]}")
    size = max(1, reach)
    padded = [pad(x, (0, 0, 0, -length % (size * dilation))) for x in (query, key, value)]
    # (..., dilation, chunks, size, d): position = (chunk * size + place) * dilation + residue
    q, k, v = (x.unflatten(-2, (-1, size, dilation)).movedim(-2, -4) for x in padded)
    sides = 1 if causal else 2
    around = [[pad(x, (0, 0, 0, 0, 1, sides - 1)).narrow(-3, side, x.shape[-3]) for side in range(sides + 1)]
              for x in (k, v)]  # fmt: skip
    keys, values = (torch.cat(parts, -2) for parts in around)
    place = torch.arange(q.shape[-3] * size * dilation, device=query.device)
    own = place.unflatten(0, (-1, size, dilation)).movedim(-1, 0).flatten(1)  # the positions of each residue
    there = pad((own < length).unflatten(1, (-1, size)), (0, 0, 1, sides - 1))
    exists = torch.cat(
        [there.narrow(1, side, q.shape[-3]) for side in range(sides + 1)], -1
    )  # (dilation, chunks, keys)
    band = band_mask(3 * size, 3 * size, reach, causal=causal, device=query.device)[size : 2 * size]
    mask = band[:, : (sides + 1) * size] & exists.unsqueeze(-2)
    found = attention(q, keys, values, mask)
    return found.movedim(-4, -2).flatten(-4, -2)[..., :length, :]


def block_attention(query: Tensor, key: Tensor, value: Tensor, size: int, *, causal: bool = False) -> Tensor:
    """Attention under a :func:`block_mask`, of queries, keys and values (..., T, d), in a time that grows as T * size.

    >>> x = torch.ones(1, 4, 2)
    >>> block_attention(x, x, torch.tensor([[[0.0], [3.0], [6.0], [9.0]]]), size=3).flatten()
    tensor([3., 3., 3., 9.])
    """
    at_least(1, size=size)
    length = query.shape[-2]
    if key.shape[-2] != length:
        raise UsageError(f"block attention is among as many queries as keys, got {length} and {key.shape[-2]}")
    q, k, v = (pad(x, (0, 0, 0, -length % size)).unflatten(-2, (-1, size)) for x in (query, key, value))
    place = torch.arange(q.shape[-3] * size, device=query.device).unflatten(0, (-1, 1, size))
    return attention(q, k, v, place < length, causal=causal).flatten(-3, -2)[..., :length, :]


class LocalAttention(MultiHeadAttention):
    """Multi-head attention to the nearest positions only, called as other multi-head attention is.

    Self-attention without a mask costs T * reach; with a mask, a bias or a cache it is that of a :func:`band_mask`.

    References:
        | Longformer: The Long-Document Transformer (Beltagy et al., 2020), https://arxiv.org/abs/2004.05150

    Arguments:
        width: The width of the queries and of the output.
        heads: The number of heads.
        reach: The largest distance at which a query attends to a key, in steps of the dilation.
        dilation: How many positions apart these keys are.
        bias: Whether the projections have a bias.
        dropout: The probability to drop an attention weight in training.
        head_dim: The width of a head; unless given, the heads share ``width``.
        rotary: Whether queries and keys are rotated by their positions.

    >>> layer = LocalAttention(8, heads=2, reach=2)
    >>> layer(torch.randn(3, 50, 8), causal=True).shape
    torch.Size([3, 50, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        reach: int,
        dilation: int = 1,
        bias: bool = True,
        dropout: float = 0.0,
        head_dim: int | None = None,
        rotary: bool = False,
    ) -> None:
        super().__init__(width, heads, bias=bias, dropout=dropout, head_dim=head_dim, rotary=rotary)
        at_least(0, reach=reach)
        at_least(1, dilation=dilation)
        self.reach, self.dilation = reach, dilation

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """The output, (B, T, width), of queries (B, T, width) for keys and values (B, S, width)."""
        if all(given is None for given in (key, value, mask, bias, cache)) and not self._rate:
            return self._near(query, causal)
        before = 0 if cache is None else cache.size
        keys = before + query.shape[1] if key is None else key.shape[1]
        band = self._band(query.shape[1], keys, query.device)
        return super().forward(
            query, key, value, band if mask is None else mask & band, causal=causal, bias=bias, cache=cache
        )

    def weights(
        self,
        query: Tensor,
        key: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
    ) -> Tensor:
        """The attention weights, (B, heads, T, S), zero beyond the band, without dropout."""
        band = self._band(query.shape[1], (query if key is None else key).shape[1], query.device)
        return super().weights(query, key, band if mask is None else mask & band, causal=causal, bias=bias)

    def _band(self, queries: int, keys: int, device: torch.device) -> Tensor:
        return band_mask(queries, keys, self.reach, dilation=self.dilation, device=device)

    def _near(self, query: Tensor, causal: bool) -> Tensor:
        """Self-attention by the kernel of the band; what is not finite passes to the queries that attend to it only."""
        wrong = ~query.isfinite().all(-1, keepdim=True)
        q, k, v = (
            x.masked_fill(wrong.unsqueeze(1), torch.nan) for x in self._heads(query.masked_fill(wrong, 0), None, None)
        )
        return self._joined_finite(local_attention(q, k, v, self.reach, dilation=self.dilation, causal=causal))
