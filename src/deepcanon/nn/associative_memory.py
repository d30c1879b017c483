"""Associative memory: values that are found by keys, which need not be matched exactly."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.nn.attention_scores import AttentionScore, ScoreKind, Weighting, weigh


class AssociativeMemory(nn.Module):
    r"""A memory of keys and values that answers a query by the values of the keys that fit it.

    .. math:: c = \sum_i w_i v_i, \qquad w = \mathrm{weigh}(s(q, k_1) \dots s(q, k_n)) \qquad (1)

    With hard weights it is a table that gives the value of the best key; with soft ones it is attention, which mixes
    the values of several. With linear weights and dot products it is the matrix :math:`\sum_i v_i k_i^\top` times q,
    which recalls exactly where keys are orthonormal. The state dict is without what is written.

    References:
        | Correlation Matrix Memories (Kohonen, 1972), https://doi.org/10.1109/TC.1972.5008975
        | Neural Turing Machines (Graves et al., 2014), https://arxiv.org/abs/1410.5401

    Arguments:
        width: The width of the keys and of the queries.
        values: The width of the values; that of the keys unless given.
        score: The score of a key for a query, by name.
        how: The weights: "soft", "hard" or "linear".

    >>> memory = AssociativeMemory(2, 1, how="hard")
    >>> memory.write(torch.eye(2), torch.tensor([[10.0], [20.0]]))
    >>> memory(torch.tensor([[0.4, 0.9]]))
    tensor([[20.]])
    """

    keys: Tensor
    values: Tensor

    def __init__(
        self, width: int, values: int | None = None, score: ScoreKind = "dot", how: Weighting = "soft"
    ) -> None:
        super().__init__()
        self.score, self.how = AttentionScore(score, width), how
        self.register_buffer("keys", torch.zeros(0, width), persistent=False)
        self.register_buffer("values", torch.zeros(0, width if values is None else values), persistent=False)

    def write(self, keys: Tensor, values: Tensor) -> None:
        """Add n keys (n, width) with their values (n, values)."""
        if keys.shape[1:] != self.keys.shape[1:] or values.shape != (len(keys), self.values.shape[1]):
            raise UsageError(
                f"a memory of keys of {self.keys.shape[1]} and values of {self.values.shape[1]} features takes a value "
                f"for each key; got keys {tuple(keys.shape)} and values {tuple(values.shape)}"
            )
        self.keys = torch.cat([self.keys, keys.to(self.keys)])
        self.values = torch.cat([self.values, values.to(self.values)])

    def forward(self, query: Tensor) -> Tensor:
        """What is recalled for queries (..., width): (..., values)."""
        if not len(self.keys):
            raise UsageError("the memory is empty: write keys and values first")
        rows = query.reshape(-1, query.shape[-1])
        recalled = weigh(self.score(rows, self.keys), how=self.how) @ self.values  # eq. (1)
        return recalled.reshape(*query.shape[:-1], -1)


def parameter_free_attention(x: Tensor) -> Tensor:
    r"""Self-attention without parameters: each row of x (..., T, d) becomes a mean of the rows that are like it.

    .. math:: y = \mathrm{softmax}(x x^\top)\, x \qquad (1)

    It is one update of a modern Hopfield network whose patterns and states are the rows.

    References:
        | Hopfield Networks is All You Need (Ramsauer et al., 2021), https://arxiv.org/abs/2008.02217

    >>> parameter_free_attention(2 * torch.eye(2))
    tensor([[1.9640, 0.0360],
            [0.0360, 1.9640]])
    """
    return weigh(x @ x.mT) @ x  # eq. (1)
