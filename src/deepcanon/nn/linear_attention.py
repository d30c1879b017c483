"""Linear-time attention: kernel features in place of the softmax, causal as a running sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import elu, pad

from deepcanon.core import UsageError
from deepcanon.core.display import Shown
from deepcanon.nn.attention import MultiHeadAttention, causal_mask

CHUNK = 128
"""Inside chunks of so many positions the causal form is quadratic, from chunk to chunk it is a running sum."""

Features = Callable[[Tensor], Tensor]


def elu_features(x: Tensor) -> Tensor:
    r"""The kernel features :math:`\phi(x) = \mathrm{elu}(x) + 1` of Katharopoulos et al., all above zero."""
    return elu(x) + 1


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    features: Features = elu_features,
) -> Tensor:
    r"""Linear-time attention of queries (..., T, d) to keys (..., S, d) and values (..., S, e): (..., T, e).

    .. math:: o_i = \sum_j w_{ij} v_j, \qquad
              w_{ij} = \frac{m_{ij}\, \phi(q_i) \cdot \phi(k_j)}{\sum_l m_{il}\, \phi(q_i) \cdot \phi(k_l)} \qquad (1)

    The sums over keys do not depend on the query, so that they are computed once, in a time that grows as T + S:

    .. math:: o_i = \frac{\phi(q_i)^\top S}{\phi(q_i) \cdot z}, \qquad S = \sum_j \phi(k_j)\, v_j^\top, \qquad
              z = \sum_j \phi(k_j) \qquad (2)

    Causal attention has running sums, :math:`S_i = S_{i-1} + \phi(k_i) v_i^\top` and :math:`z_i = z_{i-1} + \phi(k_i)`,
    where the last query stands at the last key. ``mask`` is boolean, True where a query may attend; one that hides keys
    from all queries alike, (..., 1, S), keeps the time linear, any other, (..., T, S), takes the quadratic form (1). A
    query with all keys masked gets zeros.

    References:
        | Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention (Katharopoulos et al., 2020),
          https://arxiv.org/abs/2006.16236

    >>> x = torch.ones(1, 3, 2)
    >>> linear_attention(x, x, torch.tensor([[[0.0], [3.0], [6.0]]]), causal=True).flatten()
    tensor([0.0000, 1.5000, 3.0000])
    """
    queries, keys = query.shape[-2], key.shape[-2]
    if (mask is not None and mask.shape[-2:-1] not in ((), (1,))) or (causal and queries > keys):
        return linear_attention_weights(query, key, mask, causal=causal, features=features) @ value
    q, k = features(query), features(key)
    if mask is not None:
        _check(mask)
        k = k.masked_fill(~mask.mT if mask.ndim > 1 else ~mask.unsqueeze(1), 0)
    v = pad(value, (0, 1), value=1.0)  # whose sums are S and, in the last column, z
    if not causal or queries == 1:
        return _ratio(q @ (k.mT @ v))  # eq. (2)
    before, k = k.split([keys - queries, queries], -2)
    earlier, v = v.split([keys - queries, queries], -2)
    return _ratio(_running(q, k, v, before.mT @ earlier)[0])


def linear_attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    features: Features = elu_features,
) -> Tensor:
    """The weights of equation (1), (..., T, S), in quadratic time: not negative, with rows that sum to 1, or to 0."""
    scores = features(query) @ features(key).mT
    if causal:
        earlier = causal_mask(query.shape[-2], key.shape[-2], query.device)
        mask = earlier if mask is None else mask & earlier
    if mask is not None:
        _check(mask)
        scores = scores.masked_fill(~mask, 0)
    return _divided(scores, scores.sum(-1, keepdim=True))  # eq. (1)


def _running(q: Tensor, k: Tensor, v: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """The causal sums of q . k v, (..., T, e), from the sum ``start`` (..., d, e) on, and the sum after all of them."""
    length = q.shape[-2]
    size = min(CHUNK, length)
    q, k, v = (pad(x, (0, 0, 0, -length % size)).unflatten(-2, (-1, size)) for x in (q, k, v))
    inside = (q @ k.mT).tril() @ v  # (..., chunks, size, e)
    sums = torch.cat([start.unsqueeze(-3), k.mT @ v], -3).cumsum(-3)  # (..., 1 + chunks, d, e)
    return (inside + q @ sums[..., :-1, :, :]).flatten(-3, -2)[..., :length, :], sums[..., -1, :, :]


def _ratio(sums: Tensor) -> Tensor:
    """The outputs from sums whose last column is the denominator."""
    return _divided(sums[..., :-1], sums[..., -1:])


def _divided(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The ratio; zero where there is nothing to attend to."""
    empty = denominator == 0
    return (numerator / denominator.masked_fill(empty, 1)).masked_fill(empty, 0)


def _check(mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise UsageError(f"a mask is boolean, True where a query may attend; got one of {mask.dtype}")


class RunningSums(Shown):
    """The decoding state of one layer of linear attention: two sums, of a size that does not grow with the text.

    ``sums``, (B, heads, d, d + 1), are S of equation (2) of :func:`linear_attention` and, in the last column, z.
    """

    def __init__(self) -> None:
        self.size = 0
        self.sums: Tensor | None = None

    def _facts(self) -> dict[str, Any]:
        return {"size": self.size}

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The outputs of further queries, whose keys and values are added to the sums one after the other."""
        v = pad(v, (0, 1), value=1.0)
        start = v.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if self.sums is None else self.sums
        outputs, self.sums = _running(q, k, v, start)
        self.size += q.shape[2]
        return _ratio(outputs)

    def select(self, rows: Tensor) -> Self:
        """The state of these rows, as beam search needs when it keeps some of its hypotheses."""
        chosen = type(self)()
        chosen.size, chosen.sums = self.size, None if self.sums is None else self.sums.index_select(0, rows)
        return chosen

    def reorder(self, rows: Tensor, start: int) -> None:
        """Put as many rows in the place of all; of sums over all positions, ``start`` says nothing."""
        self.sums = None if self.sums is None else self.sums.index_select(0, rows)

    def crop(self, size: int) -> None:
        """Forget everything, if ``size`` is 0: what has been added up cannot be taken apart."""
        if size not in (0, self.size):
            raise UsageError(f"running sums of {self.size} positions keep all of them or none (got {size})")
        if size == 0:
            self.size, self.sums = 0, None


class LinearAttention(MultiHeadAttention):
    """Multi-head attention in linear time, called as :class:`~deepcanon.nn.attention.MultiHeadAttention` is.

    With a cache, self-attention is causal and reads on from its running sums (:class:`RunningSums`). There are no
    weights to drop and no scores to add a bias to. Any mask is honored; see :func:`linear_attention` for its cost.

    References:
        | Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention (Katharopoulos et al., 2020),
          https://arxiv.org/abs/2006.16236

    Arguments:
        width: The width of the queries and of the output.
        heads: The number of heads.
        kdim: The width of the keys; that of the queries unless given.
        vdim: The width of the values; that of the queries unless given.
        bias: Whether the projections have a bias.
        head_dim: The width of a head; unless given, the heads share ``width``.
        features: The kernel features of queries and keys, none of them below zero.

    >>> layer = LinearAttention(8, heads=2)
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
        head_dim: int | None = None,
        features: Features = elu_features,
    ) -> None:
        super().__init__(width, heads, kdim, vdim, bias, head_dim=head_dim)
        self.features = features

    def new_cache(self, capacity: int) -> RunningSums:  # type: ignore[override]
        """The state of cached decoding, empty; it needs no room that grows with ``capacity``."""
        return RunningSums()

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
        cache: RunningSums | None = None,
    ) -> Tensor:
        """The output, (B, T, width), of queries (B, T, width) for keys (B, S, kdim) and values (B, S, vdim)."""
        if bias is not None:
            raise UsageError("linear attention has no scores that a bias could be added to: leave out bias")
        if cache is None:
            return super().forward(query, key, value, mask, causal=causal)
        if key is not None or value is not None or mask is not None or not causal:
            raise UsageError("running sums are those of causal self-attention: give a cache with causal=True alone")
        wrong = ~query.isfinite().all(-1, keepdim=True)  # (B, T, 1)
        q, k, v = self._projected(query.masked_fill(wrong, 0), None, None)
        output = self._joined(cache.attend(self.features(q), self.features(k), v))
        if not bool(wrong.any()):
            return output
        assert cache.sums is not None
        cache.sums = cache.sums.masked_fill(wrong.any(1).view(-1, 1, 1, 1), torch.nan)  # which all later ones see
        return output.masked_fill(wrong.cumsum(1) > 0, torch.nan)

    def weights(
        self,
        query: Tensor,
        key: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
    ) -> Tensor:
        """The attention weights, (B, heads, T, S), which the output never computes."""
        if bias is not None:
            raise UsageError("linear attention has no scores that a bias could be added to: leave out bias")
        q, k = self._of_heads(0, query), self._of_heads(1, query if key is None else key)
        return linear_attention_weights(q, k, mask, causal=causal, features=self.features)

    def _attended(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, bias: Tensor | None
    ) -> Tensor:
        return linear_attention(q, k, v, mask, causal=causal, features=self.features)
