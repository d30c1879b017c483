"""GraphRNN."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from deepcanon.core import Graph, Graphs, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._graph_density import GraphDensity, small_graphs

EMBEDDING = 8
"""The number of values that say how many nodes are still to come."""
BEGIN = 2
"""The token that comes before the first edge of a row; 1 is an edge, 0 the lack of one."""


class GraphGenerator(GraphDensity):
    r"""An autoregressive model of graphs: node by node, and for each node edge by edge to the nodes before it.

    Also known as: graph generation, deep autoregressive model of graphs.

    .. math:: p(A \mid n) = \prod_{i=2}^{n} \prod_{j=i-1}^{1} p(A_{ij} \mid A_{i,j+1}, \dots, A_{i,i-1}, A_{<i})
              \qquad (1)

    .. math:: h_i = \operatorname{GRU}(h_{i-1}, [A_{i-1}, e_{n-i}]), \qquad
              s_{ij} = \operatorname{GRU}'(s_{i,j+1}, A_{i,j+1}), \quad s_{i,i} = U h_i, \qquad
              p(A_{ij} = 1 \mid \cdot) = \sigma(v^\top s_{ij} + b) \qquad (2)

    The state of the graph h reads whole rows of edges, the state s of a row reads its edges from the nearest node
    before to the first. A row is read from the nearest node on, too, so that what is learned at one node holds at the
    next, and :math:`e` says how many nodes are still to come. (1) sums to one over all graphs of n nodes.

    References:
        | GraphRNN: Generating Realistic Graphs with Deep Auto-regressive Models (You et al., 2018),
          https://arxiv.org/abs/1802.08773

    Arguments:
        largest: The largest number of nodes of a graph.
        units: The number of units of the state h of a graph.
        edge_units: The number of units of the state s of a row.
    """

    recipe = Recipe(lr=3e-3, schedule="cosine", batch_size=32, epochs=40, clip="norm:1")

    def __init__(self, largest: int = 40, units: int = 64, edge_units: int = 32) -> None:
        super().__init__(largest)
        at_least(1, units=units, edge_units=edge_units)
        self.left = nn.Embedding(largest, EMBEDDING)
        self.graph_level = nn.GRU(largest + EMBEDDING, units, batch_first=True)
        self.to_row = nn.Linear(units, edge_units)
        self.tokens = nn.Embedding(3, edge_units)
        self.edge_level = nn.GRU(edge_units, edge_units, batch_first=True)
        self.head = nn.Linear(edge_units, 1)

    @classmethod
    def example(cls) -> tuple[Self, Graphs]:
        return cls(largest=4, units=6, edge_units=4), small_graphs()

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """The log-probability of each graph of the union, (graphs,); features of nodes are not modeled."""
        return self.log_prob(graph)

    def _edge_log_prob(self, rows: Tensor, sizes: Tensor) -> Tensor:
        near = _nearest_first(rows)
        batch, nodes, _ = near.shape
        before = pad(near, (0, self.largest - nodes, 1, -1))  # the row of the node before, zeros at the first
        number = torch.arange(nodes, device=rows.device)
        left = self.left((sizes.unsqueeze(1) - 1 - number).clamp_min(0))
        states, _ = self.graph_level(torch.cat([before, left], 2))
        tokens = pad(near.long(), (1, -1), value=BEGIN).view(batch * nodes, nodes)
        start = self.to_row(states).view(1, batch * nodes, -1)
        read, _ = self.edge_level(self.tokens(tokens), start)
        logits = self.head(read).view(batch, nodes, nodes)  # eq. (2)
        nats = binary_cross_entropy_with_logits(logits, near, reduction="none")
        there = (number < number.unsqueeze(1)) & (number.unsqueeze(1) < sizes.view(-1, 1, 1))
        return -torch.where(there, nats, 0.0).sum((1, 2))  # eq. (1)

    def _sample_edges(self, sizes: Tensor, generator: Generator | None) -> Tensor:
        count, nodes = len(sizes), max(1, int(sizes.max())) if len(sizes) else 1
        near = torch.zeros(count, nodes, nodes, device=sizes.device, dtype=self.head.weight.dtype)
        row, state = near.new_zeros(count, 1, self.largest), None
        for i in range(nodes):
            left = self.left((sizes - 1 - i).clamp_min(0)).unsqueeze(1)
            read, state = self.graph_level(torch.cat([row, left], 2), state)
            inner = self.to_row(read).transpose(0, 1).contiguous()
            token = torch.full((count, 1), BEGIN, device=sizes.device)
            for step in range(i):
                seen, inner = self.edge_level(self.tokens(token), inner)
                chance = self.head(seen)[:, 0, 0].sigmoid()  # eq. (2)
                uniform = torch.rand(count, generator=generator, device=sizes.device, dtype=chance.dtype)
                drawn = (uniform < chance) & (i < sizes)
                near[:, i, step] = drawn.to(near.dtype)
                token = drawn.long().unsqueeze(1)
            row = pad(near[:, i : i + 1], (0, self.largest - nodes))
        return _nearest_first(near)


def _nearest_first(rows: Tensor) -> Tensor:
    """Each row with its entries before the diagonal in reverse order; twice gives the rows back.

    >>> _nearest_first(torch.tensor([[[0, 0, 0], [1, 0, 0], [1, 2, 0]]]))[0]
    tensor([[0, 0, 0],
            [1, 0, 0],
            [2, 1, 0]])
    """
    number = torch.arange(rows.shape[1], device=rows.device)
    index = (number.unsqueeze(1) - 1 - number).clamp_min(0).expand_as(rows)
    return rows.gather(2, index).tril(-1)
