"""The engine of distributions over graphs: the number of nodes, dense rows of edges, and unions of samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Generator, Tensor

from deepcanon.core import (
    AnyBatch,
    Context,
    DataError,
    Evaluated,
    Graph,
    Graphs,
    LikelihoodKind,
    Model,
    Terms,
    UsageError,
)
from deepcanon.core.checks import at_least
from deepcanon.core.conditional import bound
from deepcanon.core.memory import enough_for
from deepcanon.nn.node_order import breadth_first


class GraphDensity(Model[Graphs]):
    r"""A distribution over undirected graphs with nodes in an order, of any number up to the ``largest``.

    A leaf gives the log-probability of the edges, row by row, and draws them; here are the number of nodes n and the
    likelihood of both:

    .. math:: \log p(A, n) = \log p(n) + \log p(A \mid n), \qquad
              p(n) = \frac{c_n + 1 / (1 + N)}{1 + \sum_m c_m} \qquad (1)

    where :math:`c_n` of the training graphs have n nodes, and N is the largest number.

    ``log_prob`` is that of a graph with its nodes in the order in which they are numbered. Loss and metrics take them
    in breadth-first order, so that equal graphs with other numbers look alike; what a graph has in this order is a
    lower bound of its log-probability in any order. Features of nodes are not modeled.
    """

    likelihood_kind: LikelihoodKind = "exact"
    counts: Tensor

    def __init__(self, largest: int) -> None:
        super().__init__()
        at_least(1, largest=largest)
        self.largest = largest
        self.register_buffer("counts", torch.full((largest + 1,), 1 / (largest + 1)))

    @abstractmethod
    def _edge_log_prob(self, rows: Tensor, sizes: Tensor) -> Tensor:
        """The log-probability of the edges given the numbers of nodes, (B,); :func:`rows_of` gives the rows."""

    @abstractmethod
    def _sample_edges(self, sizes: Tensor, generator: Generator | None) -> Tensor:
        """Edges drawn for graphs of these numbers of nodes, as rows (B, N, N)."""

    @classmethod
    def batch_type(cls) -> type[AnyBatch]:
        return Graphs

    @torch.no_grad()
    def prepare(self, data: Iterable[Graphs]) -> None:
        """Count the nodes of the training graphs."""
        self.counts.fill_(1 / (self.largest + 1))
        for batch in data:
            self.counts += self._sizes(batch.graph).bincount(minlength=self.largest + 1)

    def log_prob(
        self,
        graph: Graph,
        *,
        context: Context | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The log-probability of each graph of a union with its nodes in their order, (graphs,)."""
        bound(self, context, len(graph.parts) or 1)
        for name, value in (("samples", samples), ("generator", generator)):
            if value is not None:
                raise UsageError(f"the log_prob of {self.name()} is exact and draws nothing; leave out {name}")
        sizes = self._sizes(graph)
        return self._log_prob(rows_of(graph, sizes, self.counts.dtype), sizes)

    def loss(self, batch: Graphs) -> Terms:
        sizes = self._sizes(batch.graph)
        rows = rows_of(batch.graph, sizes, self.counts.dtype)
        order = breadth_first(rows + rows.mT, sizes)
        return {"nll": -self._log_prob(reordered(rows, order), sizes).mean()}

    def metrics(self, batch: Graphs) -> Terms:
        return self.loss(batch)

    def evaluated(self, batch: Graphs) -> Evaluated:
        terms = self.loss(batch)
        return Evaluated(terms, dict(terms))

    @torch.no_grad()
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Graph:
        """The union of ``n`` graphs drawn from the model."""
        at_least(0, n=n)
        bound(self, context, n)
        with enough_for(f"{n:,} samples of {self.name()}", "draw fewer at a time"):
            shares = self.counts.expand(max(1, n), -1)
            sizes = torch.multinomial(shares, 1, generator=generator).squeeze(1)[:n]  # eq. (1)
            return graph_of(self._sample_edges(sizes, generator), sizes)

    def _log_prob(self, rows: Tensor, sizes: Tensor) -> Tensor:
        of_size = (self.counts / self.counts.sum()).log()[sizes]
        return of_size + self._edge_log_prob(rows, sizes)  # eq. (1)

    def _sizes(self, graph: Graph) -> Tensor:
        """The number of nodes of each graph, (B,), none of them too large, and edges that the model has."""
        if graph.weight is not None or graph.edge_features is not None:
            raise DataError(f"{self.name()} is of graphs whose edges have neither weights nor features; leave them out")
        sizes = torch.tensor(graph.parts or (graph.nodes,), device=self.counts.device)
        if (most := max(graph.parts or (graph.nodes,), default=0)) > self.largest:
            raise DataError(
                f"{self.name()} was built for graphs of at most {self.largest} nodes, and one has {most}; "
                f"give it largest={most}"
            )
        source, target = graph.edge_index
        if not graph.edge_index.is_meta and source.numel():
            forth, back = (a * graph.nodes + b for a, b in ((source, target), (target, source)))
            if bool((source == target).any()) or not torch.equal(forth.unique(), back.unique()):
                raise DataError(f"{self.name()} is of undirected graphs: list every edge both ways, and no self-loops")
        return sizes


def small_graphs() -> Graphs:
    """Rings of three and four nodes, a pair and a single node, twice: the example of the family."""
    rings = [torch.stack([torch.arange(n), torch.arange(n).roll(1)]) for n in (3, 4)]
    graphs = [Graph(torch.cat([ring, ring.flip(0)], 1), ring.shape[1]) for ring in rings]
    pair, alone = Graph(torch.tensor([[0, 1], [1, 0]]), 2), Graph(torch.empty(2, 0, dtype=torch.long), 1)
    union = Graph.union([*graphs, pair, alone] * 2)
    return Graphs(torch.ones(union.nodes, 1), union)


def rows_of(graph: Graph, sizes: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The edges of each graph of a union as rows of bits, (B, N, N): 1 at (i, j) where node i has an edge to j < i."""
    nodes = max(1, *(graph.parts or (graph.nodes,)))
    rows = torch.zeros(len(sizes), nodes, nodes, device=sizes.device, dtype=dtype)
    source, target = graph.edge_index
    owner = graph.membership()
    starts = sizes.cumsum(0) - sizes
    i, j = (end - starts[owner[end]] for end in (source, target))
    rows[owner[source], i, j] = 1.0
    return rows.tril(-1)


def reordered(rows: Tensor, order: Tensor) -> Tensor:
    """The rows of the same graphs with their nodes in this order."""
    whole = rows + rows.mT
    index = order.unsqueeze(2).expand_as(whole)
    return whole.gather(1, index).gather(2, index.mT).tril(-1)


def graph_of(rows: Tensor, sizes: Tensor) -> Graph:
    """The union of graphs from their rows; every edge is listed both ways."""
    owner, i, j = rows.nonzero(as_tuple=True)
    starts = (sizes.cumsum(0) - sizes)[owner]
    edges = torch.stack([torch.stack([i, j], 1), torch.stack([j, i], 1)], 1) + starts.view(-1, 1, 1)
    return Graph(edges.view(-1, 2).T.contiguous(), int(sizes.sum()), parts=tuple(sizes.tolist()))
