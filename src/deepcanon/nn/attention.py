"""Scaled dot-product attention and multi-head attention."""

from __future__ import annotations

import math
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.fast_product import linear
from deepcanon.core.padding import shows_values
from deepcanon.nn.attention_scores import AttentionScore, ScoreKind, Weighting, weigh
from deepcanon.nn.kv_cache import KVCache
from deepcanon.nn.positions import Rotary


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    score: AttentionScore | None = None,
    how: Weighting = "soft",
) -> Tensor:
    r"""Scaled dot-product attention of queries (..., T, d) to keys (..., S, d) and values (..., S, e): (..., T, e).

    .. math:: o_i = \sum_j w_{ij} v_j, \qquad
              w_{ij} = \frac{m_{ij}\, e^{s_{ij}}}{\sum_k m_{ik}\, e^{s_{ik}}}, \qquad
              s_{ij} = \frac{q_i \cdot k_j}{\sqrt d} + b_{ij} \qquad (1)

    ``mask`` is boolean, of a shape that broadcasts to (..., T, S), and True where a query may attend to a key. A query
    with all keys masked gets zeros, and a key and value change nothing for a query that they are masked for, even if
    they are NaN or infinite; a query that may attend to such a key gets NaN, and sends no gradient. ``causal`` lets a
    query attend to the keys up to its own position, where the last query stands at the last key, so that one query
    after a long cache attends to all of it. ``bias`` is added to the scores, ``scale`` replaces one over the root of d,
    and ``dropout`` is the probability to drop a weight. Another ``score`` takes the place of s, and ``how`` says what
    weights follow from the scores.

    References:
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762

    >>> x = 10 * torch.eye(3)[None]
    >>> attention(x, x, x, causal=True).round()[0, 0]
    tensor([10.,  0.,  0.])
    """
    if not _may_spoil(query, mask, causal) or not _not_finite(query, key, value):
        return _attend(query, key, value, mask, causal, bias, scale, dropout, score, how)
    query, key, value, spoiled = _cleaned(query, key, value, mask, causal)
    return _attend(query, key, value, mask, causal, bias, scale, dropout, score, how).masked_fill(spoiled, torch.nan)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    bias: Tensor | None,
    scale: float | None,
    rate: float,
    score: AttentionScore | None,
    how: Weighting,
) -> Tensor:
    """Equation (1) by torch's kernel, for which NaN spoils masked queries, too, and on some processors gives zeros."""
    if score is not None or how != "soft":
        weights = attention_weights(query, key, mask, causal=causal, bias=bias, scale=scale, score=score, how=how)
        return dropout(weights, rate) @ value
    queries, keys = query.shape[-2], key.shape[-2]
    if mask is None and bias is None and (not causal or queries in (1, keys)):
        # torch aligns the first query with the first key, which is the same only for a square mask or for none.
        own = causal and queries > 1
        return scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=own, scale=scale)
    allowed, empty = _allowed(query, key, mask, causal)
    if bias is not None and allowed is not None:
        bias = bias.masked_fill(~allowed, -torch.inf)
    output = scaled_dot_product_attention(  # eq. (1)
        query, key, value, attn_mask=allowed if bias is None else bias, dropout_p=rate, scale=scale
    )
    return output if empty is None else output.masked_fill(empty, 0)


def _may_spoil(query: Tensor, mask: Tensor | None, causal: bool) -> bool:
    """Whether a query may be masked from a key; the last one of a causal mask, often the only one, is from none."""
    return mask is not None or (causal and query.shape[-2] > 1)


def _not_finite(*tensors: Tensor) -> bool:
    """Whether attention has to be computed without what is NaN or infinite in its inputs, which is rare.

    They may hold such values where there is nothing to look at, in torch.func and in a graph that is compiled or
    exported; and on a GPU, where nothing is gained by a look, which would have to wait for the inputs.
    """
    if not all(shows_values(each) and each.device.type == "cpu" for each in tensors):
        return True
    # One NaN or infinity makes the sum one; asking Python whether it is finite takes a third of torch's time.
    return any(not math.isfinite(each.detach().sum().item()) for each in tensors)


def _cleaned(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys and values with zeros for those that are not finite, and which queries see one, (..., T, 1)."""
    wrong_query = ~query.isfinite().all(-1, keepdim=True)  # (..., T, 1)
    wrong = ~(key.isfinite().all(-1, keepdim=True) & value.isfinite().all(-1, keepdim=True))  # (..., S, 1)
    allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
    if causal:
        allowed = causal_mask(query.shape[-2], key.shape[-2], query.device)
    if mask is not None:
        allowed = allowed & mask
    spoiled = (allowed & (wrong.mT | wrong_query)).any(-1, keepdim=True)
    return query.masked_fill(wrong_query, 0), key.masked_fill(wrong, 0), value.masked_fill(wrong, 0), spoiled


def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
    scale: float | None = None,
    score: AttentionScore | None = None,
    how: Weighting = "soft",
) -> Tensor:
    """The attention weights, by default a softmax, (..., T, S): rows of sum 1, or 0 if all keys are masked."""
    if score is not None and scale is not None:
        raise UsageError(
            f"a scale is that of dot products; the {score.kind} score has none: leave it out (got {scale})"
        )
    if score is None:
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    else:
        scores = score(query, key)
    if bias is not None:
        scores = scores + bias
    if causal:
        earlier = causal_mask(query.shape[-2], key.shape[-2], query.device)
        mask = earlier if mask is None else mask & earlier
    return weigh(scores, mask, how)


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """The causal mask, (queries, keys): True where a query may attend, if the last query stands at the last key.

    >>> causal_mask(2, 4).int()
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def _allowed(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor | None, Tensor | None]:
    """Which scores count, and which queries have all keys masked; these attend to all, so that no gradient is NaN."""
    queries, keys = query.shape[-2], key.shape[-2]
    if mask is not None and mask.dtype != torch.bool:
        raise UsageError(f"a mask is boolean, True where a query may attend; got one of {mask.dtype}")
    if causal:
        earlier = causal_mask(queries, keys, query.device)
        if mask is None and keys >= queries:  # every query attends to at least the first key
            return earlier, None
        mask = earlier if mask is None else mask & earlier
    if mask is None:
        return None, None
    empty = ~mask.any(-1, keepdim=True)  # (..., T, 1)
    return mask | empty, empty


class MultiHeadAttention(nn.Module):
    r"""Multi-head attention: several heads, each with linear projections of queries, keys and values of its own.

    .. math:: h_i = \mathrm{attention}(Q W^Q_i, K W^K_i, V W^V_i), \qquad o = [h_1 \dots h_H] W^O \qquad (2)

    If queries, keys and values have the same width, their three projections are one matrix, ``projection``, with the
    rows in the order of ``torch.nn.MultiheadAttention``; else they are ``query``, ``key`` and ``value``.

    References:
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762

    Arguments:
        width: The width of the queries and of the output.
        heads: The number of heads.
        kdim: The width of the keys; that of the queries unless given.
        vdim: The width of the values; that of the queries unless given.
        bias: Whether the projections have a bias.
        dropout: The probability to drop an attention weight in training.
        head_dim: The width of a head; unless given, the heads share ``width``.
        scale: What scores are multiplied by; unless given, one over the root of the width of a head.
        rotary: Whether queries and keys are rotated by their positions (:class:`~deepcanon.nn.positions.Rotary`), the
            last query standing at the last key.
        score: The score of a key for a query, by name; one with weights of its own has the same for all heads.
        how: The weights that follow from the scores: "soft", "hard" or "linear".

    >>> layer = MultiHeadAttention(8, heads=2)
    >>> layer(torch.randn(3, 5, 8), causal=True).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        head_dim: int | None = None,
        scale: float | None = None,
        rotary: bool = False,
        score: ScoreKind = "scaled",
        how: Weighting = "soft",
    ) -> None:
        super().__init__()
        at_least(1, width=width, heads=heads)
        if head_dim is None and width % heads:
            raise UsageError(f"the heads share the width: {width} must be a multiple of heads (got {heads})")
        self.width, self.heads, self.dropout, self.scale = width, heads, dropout, scale
        self.head_dim = width // heads if head_dim is None else head_dim
        at_least(1, head_dim=self.head_dim)
        inner = heads * self.head_dim
        self.fused = (kdim or width) == (vdim or width) == width
        if self.fused:
            self.projection = nn.Linear(width, 3 * inner, bias)
        else:
            self.query = nn.Linear(width, inner, bias)
            self.key = nn.Linear(kdim or width, inner, bias)
            self.value = nn.Linear(vdim or width, inner, bias)
        self.output = nn.Linear(inner, width, bias)
        self.rotary = Rotary(self.head_dim) if rotary else None
        one_of(get_args(Weighting), how=how)
        self.how: Weighting = how
        self.score = None if score == "scaled" else AttentionScore(score, self.head_dim)

    def new_cache(self, capacity: int) -> KVCache:
        """The memory of cached decoding, empty, with room for ``capacity`` positions."""
        return KVCache(capacity)

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
        """The output, (B, T, width), of queries (B, T, width) for keys (B, S, kdim) and values (B, S, vdim).

        Without keys it is self-attention, and without values the keys are the values, too. ``mask`` is True where a
        query may attend and broadcasts to (B, heads, T, S). ``cache`` holds the keys and values of earlier tokens, and
        is extended; of keys that are given, as in cross-attention, it is filled once and read from then on. What is not
        finite at a position passes to no query that may not attend to it, nor to any gradient.
        """
        if cache is not None:
            spoils = key is None and value is None and _may_spoil(query, mask, causal) and _not_finite(query)
            q, k, v = (self._cached_finite if spoils else self._cached)(query, key, value, cache)
            heads = attention(
                q, k, v, mask, causal=causal, bias=bias, scale=self.scale, dropout=self._rate, score=self.score,
                how=self.how,
            )  # fmt: skip
            return self._joined_finite(heads) if spoils else self._joined(heads)
        inputs = [each for each in (query, key, value) if each is not None]
        if not _may_spoil(query, mask, causal) or not _not_finite(*inputs):
            return self._output(query, key, value, mask, causal, bias)
        keys = query if key is None else key
        values = keys if value is None else value
        q, k, v, spoiled = _cleaned(query.unsqueeze(1), keys.unsqueeze(1), values.unsqueeze(1), mask, causal)
        alone = key is None and value is None
        own_key, own_value = (None, None) if alone else (k.squeeze(1), v.squeeze(1))
        output = self._output(q.squeeze(1), own_key, own_value, mask, causal, bias)
        return output.masked_fill(spoiled.any(1), torch.nan)

    def _output(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        mask: Tensor | None,
        causal: bool,
        bias: Tensor | None,
    ) -> Tensor:
        q, k, v = self._heads(query, key, value)
        return self._joined(self._attended(q, k, v, mask, causal, bias))

    def _attended(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, bias: Tensor | None
    ) -> Tensor:
        """The outputs of all heads, (B, heads, T, d), where all inputs are finite."""
        return _attend(q, k, v, mask, causal, bias, self.scale, self._rate, self.score, self.how)

    def _joined(self, heads: Tensor) -> Tensor:
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))  # eq. (2)
        return output

    def _joined_finite(self, heads: Tensor) -> Tensor:
        """The output of heads some of which are not finite, which would spoil the gradients of the others."""
        spoiled = ~heads.isfinite().all(-1).all(1).unsqueeze(2)  # (B, T, 1)
        return self._joined(heads.masked_fill(spoiled.unsqueeze(1), 0)).masked_fill(spoiled, torch.nan)

    @property
    def _rate(self) -> float:
        return self.dropout if self.training else 0.0

    def _cached(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, cache: KVCache
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of all heads, where those of earlier calls are in the cache."""
        if key is not None and cache.size:
            return self._of_heads(0, query), *cache.all()
        q, k, v = self._heads(query, key, value, cache.size)
        return q, *cache.append(k, v)

    def _cached_finite(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, cache: KVCache
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Those of self-attention, NaN where the query is not finite: projected, it would spoil the gradients."""
        wrong = ~query.isfinite().all(-1, keepdim=True)
        parts = self._heads(query.masked_fill(wrong, 0), key, value, cache.size)
        q, k, v = (part.masked_fill(wrong.unsqueeze(1), torch.nan) for part in parts)
        return q, *cache.append(k, v)

    def weights(
        self,
        query: Tensor,
        key: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
    ) -> Tensor:
        """The attention weights, (B, heads, T, S), without dropout."""
        q, k = self._of_heads(0, query), self._of_heads(1, query if key is None else key)
        q, k = self._placed(q, k, 0)
        return attention_weights(q, k, mask, causal=causal, bias=bias, scale=self.scale, score=self.score, how=self.how)

    def _heads(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, start: int = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of all heads, (B, heads, T or S, d); the first key stands at ``start``."""
        q, k, v = self._projected(query, key, value)
        return *self._placed(q, k, start), v

    def _placed(self, q: Tensor, k: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Queries and keys at their positions."""
        if self.rotary is None:
            return q, k
        return self.rotary(q, start + k.shape[2] - q.shape[2]), self.rotary(k, start)

    def _projected(self, query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        if self.fused and key is None and value is None:
            rows, length, _ = query.shape
            q, k, v = self.projection(query).view(rows, length, 3 * self.heads, self.head_dim).chunk(3, 2)
            return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        key = query if key is None else key
        return self._of_heads(0, query), self._of_heads(1, key), self._of_heads(2, key if value is None else value)

    def _of_heads(self, part: int, x: Tensor) -> Tensor:
        """The projection of x by the first, second or third matrix, (B, heads, T, d)."""
        if self.fused:
            bias = None if self.projection.bias is None else self.projection.bias.chunk(3)[part]
            projected = linear(x, self.projection.weight.chunk(3)[part], bias)
        else:
            projected = (self.query, self.key, self.value)[part](x)
        return self._split(projected)

    def _split(self, projected: Tensor) -> Tensor:
        rows, length, _ = projected.shape
        return projected.view(rows, length, self.heads, self.head_dim).transpose(1, 2)
