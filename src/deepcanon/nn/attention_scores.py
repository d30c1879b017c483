"""Attention scores: how well a key fits a query, by six formulas; and the weights that follow from scores."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least, one_of

ScoreKind = Literal["dot", "cosine", "scaled", "general", "low_rank", "additive"]
Weighting = Literal["soft", "hard", "linear"]

OF_EQUAL_WIDTH = ("dot", "cosine", "scaled")
"""The scores that compare queries and keys feature by feature."""


class AttentionScore(nn.Module):
    r"""The score of a key k for a query q: how relevant what it describes is to what is asked for.

    .. math:: \mathrm{dot}\quad s = q \cdot k, \qquad
              \mathrm{cosine}\quad s = \beta\, \frac{q \cdot k}{\lVert q \rVert \lVert k \rVert}, \qquad
              \mathrm{scaled}\quad s = \frac{q \cdot k}{\sqrt d} \qquad (1)

    .. math:: \mathrm{general}\quad s = q^\top W k, \qquad
              \mathrm{low\ rank}\quad s = (U q)^\top (V k), \qquad
              \mathrm{additive}\quad s = v^\top \tanh(W q + U k + b) \qquad (2)

    The first three compare vectors of equal width d; only the factor :math:`\beta` of the cosine is learned, from 1 on,
    since a softmax of numbers from -1 to 1 is never sharp. A low rank r of the general form takes r (d + e) weights in
    place of d e. All but the additive score are products of a function of the query and one of the key, so that many
    cost one product of matrices; it takes a hidden layer for every pair.

    References:
        | Neural Machine Translation by Jointly Learning to Align and Translate (Bahdanau et al., 2015; additive),
          https://arxiv.org/abs/1409.0473
        | Effective Approaches to Attention-based Neural Machine Translation (Luong et al., 2015; dot, general),
          https://arxiv.org/abs/1508.04025
        | Neural Turing Machines (Graves et al., 2014; cosine with a factor), https://arxiv.org/abs/1410.5401
        | Attention Is All You Need (Vaswani et al., 2017; scaled), https://arxiv.org/abs/1706.03762

    Arguments:
        kind: The formula: "dot", "cosine", "scaled", "general", "low_rank" or "additive".
        query: The width d of the queries.
        key: The width e of the keys; that of the queries unless given.
        hidden: The rank of "low_rank", or the number of hidden units of "additive"; that of the queries unless given.

    >>> AttentionScore("dot", 3)(torch.tensor([[5.0, 0, 0]]), torch.tensor([[0.1, 0, 2], [5, 4, 3]]))
    tensor([[ 0.5000, 25.0000]])
    """

    def __init__(self, kind: ScoreKind, query: int, key: int | None = None, hidden: int | None = None) -> None:
        super().__init__()
        one_of(get_args(ScoreKind), kind=kind)
        key = query if key is None else key
        at_least(1, query=query, key=key)
        if hidden is not None:
            if kind not in ("low_rank", "additive"):
                raise UsageError(
                    f"the {kind} score has no hidden layer, whose width was given ({hidden}); leave it out"
                )
            at_least(1, hidden=hidden)
        if kind in OF_EQUAL_WIDTH and query != key:
            raise UsageError(
                f"the {kind} score compares queries and keys of equal width, not of {query} and {key}; 'general', "
                "'low_rank' and 'additive' take any"
            )
        self.kind, self.hidden = kind, query if hidden is None else hidden
        if kind == "cosine":
            self.factor = nn.Parameter(torch.ones(()))  # beta
        elif kind == "general":
            self.key = nn.Linear(key, query, bias=False)  # W
        elif kind in ("low_rank", "additive"):
            self.query = nn.Linear(query, self.hidden, bias=False)  # U, or W
            self.key = nn.Linear(key, self.hidden, bias=kind == "additive")  # V, or U and b
        if kind == "additive":
            self.align = nn.Linear(self.hidden, 1, bias=False)  # v

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """The scores of all keys (..., S, e) for all queries (..., T, d): (..., T, S)."""
        return self.scores(query, self.keys(key))

    def keys(self, key: Tensor) -> Tensor:
        """What depends on the keys alone, (..., S, d or hidden): of keys that are asked often, it is computed once."""
        if self.kind == "cosine":
            return normalize(key, dim=-1)
        if self.kind == "scaled":
            return key / math.sqrt(key.shape[-1])
        projected: Tensor = key if self.kind == "dot" else self.key(key)
        return projected

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """The scores from queries (..., T, d) and what ``keys`` has given: (..., T, S)."""
        if self.kind == "additive":
            hidden = (self.query(query).unsqueeze(-2) + keys.unsqueeze(-3)).tanh()  # (..., T, S, hidden)
            pairs: Tensor = self.align(hidden)
            return pairs.squeeze(-1)  # eq. (2)
        if self.kind == "cosine":
            query = self.factor * normalize(query, dim=-1)
        elif self.kind == "low_rank":
            query = self.query(query)
        return query @ keys.mT  # eqs. (1) and (2)

    def extra_repr(self) -> str:
        return self.kind


def weigh(scores: Tensor, mask: Tensor | None = None, how: Weighting = "soft") -> Tensor:
    r"""The attention weights of scores (..., T, S) where the mask, which broadcasts to them, is True; else 0.

    .. math:: \mathrm{soft}\quad w = \mathrm{softmax}(s), \qquad
              \mathrm{hard}\quad w_j = [\,j = \mathrm{argmax}\, s\,], \qquad
              \mathrm{linear}\quad w = s \qquad (1)

    Soft weights sum to 1, to 0 for a query with all keys masked. Hard ones choose the first of the best keys; their
    gradient is that of the soft ones (straight-through), since their own is zero. Linear ones are the scores, neither
    positive nor of any sum.

    References:
        | Show, Attend and Tell: Neural Image Caption Generation with Visual Attention (Xu et al., 2015; hard and soft),
          https://arxiv.org/abs/1502.03044
        | Estimating or Propagating Gradients Through Stochastic Neurons for Conditional Computation
          (Bengio et al., 2013; straight-through), https://arxiv.org/abs/1308.3432

    >>> weigh(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([True, True, False]), "hard")
    tensor([0., 1., 0.])
    """
    one_of(get_args(Weighting), how=how)
    if mask is not None and mask.dtype != torch.bool:
        raise UsageError(f"a mask is boolean, True where a query may attend; got one of {mask.dtype}")
    if how == "linear":
        return scores if mask is None else scores.masked_fill(~mask, 0)
    empty = None
    if mask is not None:
        empty = ~mask.any(-1, keepdim=True)  # such a query attends to all first, so that no gradient is NaN
        scores = scores.masked_fill(~(mask | empty), -torch.inf)
    weights = scores.softmax(-1)
    if how == "hard":
        chosen = one_hot(scores.argmax(-1), scores.shape[-1]).to(weights)
        weights = _StraightThrough.apply(chosen, weights)  # type: ignore[no-untyped-call]
    return weights if empty is None else weights.masked_fill(empty, 0)


class _StraightThrough(torch.autograd.Function):
    """The first argument, with the gradient of the second."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, soft: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, gradient
