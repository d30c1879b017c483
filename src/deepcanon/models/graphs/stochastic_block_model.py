"""Stochastic block model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import Absorb, Graph, Graphs, Recipe, Turn
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._graph_density import GraphDensity, reordered, rows_of, small_graphs
from deepcanon.nn.node_order import breadth_first


class StochasticBlockModel(GraphDensity):
    r"""A distribution over graphs whose edges are independent, each as probable as the blocks of its ends say.

    Also known as: SBM, block model, random graph of Erdős and Rényi (one block).

    .. math:: p(A \mid n) = \prod_{j < i} \theta_{b(i) b(j)}^{A_{ij}} (1 - \theta_{b(i) b(j)})^{1 - A_{ij}}, \qquad
              b(i) = \lfloor K i / n \rfloor \qquad (1)

    .. math:: \theta_{ab} = \frac{m_{ab} + 1}{N_{ab} + 2} \qquad (2)

    The blocks are those of a node's place in breadth-first order, so that nothing is latent and the likelihood is
    exact: of :math:`N_{ab}` pairs of nodes of the blocks a and b in the training graphs, :math:`m_{ab}` are joined, and
    :math:`\theta` follows by Laplace's rule. With one block all edges are equally probable: the random graph of Erdős
    and Rényi. It is learned by counting, and is what ``graph_generator`` is held to.

    References:
        | Stochastic blockmodels: First steps (Holland et al., 1983), https://doi.org/10.1016/0378-8733(83)90021-7
        | On Random Graphs (Erdős and Rényi, 1959)

    Arguments:
        largest: The largest number of nodes of a graph.
        blocks: The number of blocks K.
    """

    recipe = Recipe(batch_size=256, epochs=1, keep_weights="last")
    joined: Tensor
    pairs: Tensor

    def __init__(self, largest: int = 40, blocks: int = 4) -> None:
        super().__init__(largest)
        at_least(1, blocks=blocks)
        self.blocks = blocks
        self.register_buffer("joined", torch.zeros(blocks, blocks))
        self.register_buffer("pairs", torch.zeros(blocks, blocks))

    @classmethod
    def example(cls) -> tuple[Self, Graphs]:
        return cls(largest=4, blocks=2), small_graphs()

    def turns(self) -> Sequence[Turn[Graphs]]:
        return [Absorb(self.count)]

    @torch.no_grad()
    def count(self, batch: Graphs) -> None:
        """Count the pairs of nodes of all blocks, and those that are joined, in breadth-first order."""
        sizes = self._sizes(batch.graph)
        rows = rows_of(batch.graph, sizes, self.joined.dtype)
        rows = reordered(rows, breadth_first(rows + rows.mT, sizes))
        block, there = self._blocks(sizes, rows.shape[1])
        for count, values in ((self.joined, rows * there), (self.pairs, there.to(rows.dtype))):
            place = (block.unsqueeze(2) * self.blocks + block.unsqueeze(1)).flatten()
            count += torch.zeros_like(count).flatten().index_add(0, place, values.flatten()).view_as(count)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """The log-probability of each graph of the union, (graphs,); features of nodes are not modeled."""
        return self.log_prob(graph)

    def edge_probabilities(self) -> Tensor:
        """The probability of an edge from a node of a later block (row) to one of an earlier (column), (K, K)."""
        return (self.joined + 1) / (self.pairs + 2)  # eq. (2)

    def _edge_log_prob(self, rows: Tensor, sizes: Tensor) -> Tensor:
        block, there = self._blocks(sizes, rows.shape[1])
        chance = self.edge_probabilities()[block.unsqueeze(2), block.unsqueeze(1)]
        nats = torch.where(rows > 0, chance.log(), torch.log1p(-chance))
        return torch.where(there, nats, 0.0).sum((1, 2))  # eq. (1)

    def _sample_edges(self, sizes: Tensor, generator: Generator | None) -> Tensor:
        nodes = max(1, int(sizes.max())) if len(sizes) else 1
        block, there = self._blocks(sizes, nodes)
        chance = self.edge_probabilities()[block.unsqueeze(2), block.unsqueeze(1)]
        uniform = torch.rand(chance.shape, generator=generator, device=chance.device, dtype=chance.dtype)
        return ((uniform < chance) & there).to(chance.dtype)

    def _blocks(self, sizes: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
        """The block of every node, (B, N), and which pairs of a node and an earlier one there are, (B, N, N)."""
        number = torch.arange(nodes, device=sizes.device)
        block = (self.blocks * number // sizes.clamp_min(1).unsqueeze(1)).clamp_max(self.blocks - 1)
        return block, (number < number.unsqueeze(1)) & (number.unsqueeze(1) < sizes.view(-1, 1, 1))
