"""Gated graph layer: a GRU cell at every node, whose inputs are the messages of its neighbors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepcanon.core import DataError, Graph
from deepcanon.core.checks import at_least, one_of
from deepcanon.nn.message_passing import AGGREGATIONS, Aggregation, aggregate


class GatedConv(nn.Module):
    r"""Gated graph layer: T steps of messages, by which a GRU cell with the same weights updates every node's state.

    .. math:: m_v = \operatorname{aggregate}_{u \to v} W h_u, \qquad h_v \leftarrow \operatorname{GRU}(m_v, h_v)
              \qquad (1)

    It is the layer of Gated Graph Sequence Neural Networks (Li et al., 2016), https://arxiv.org/abs/1511.05493.

    >>> GatedConv(4, steps=3)(torch.ones(3, 4), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([3, 4])
    """

    def __init__(self, units: int, steps: int, *, aggregation: Aggregation = "sum") -> None:
        super().__init__()
        at_least(1, units=units, steps=steps)
        one_of(AGGREGATIONS, aggregation=aggregation)
        self.in_features, self.steps = units, steps
        self.aggregation: Aggregation = aggregation
        self.weight = nn.Parameter(torch.empty(units, units))
        self.cell = nn.GRUCell(units, units)
        nn.init.xavier_uniform_(self.weight)

    def forward(self, h: Tensor, graph: Graph | Tensor) -> Tensor:
        """The states of all nodes after the last step, (nodes, units)."""
        if h.shape[1] != self.in_features:
            raise DataError(f"the layer takes states of {self.in_features} units, got {h.shape[1]}")
        graph = Graph.of(graph, len(h))
        for _ in range(self.steps):
            h = self.cell(aggregate(h @ self.weight.T, graph, self.aggregation), h)  # eq. (1)
        return h
