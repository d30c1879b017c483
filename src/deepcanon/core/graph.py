"""Graphs as edge lists, with their adjacency and Laplacian matrices as sparse operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.sparse import Sparse

Operator = Literal[
    "adjacency", "gcn", "symmetric", "random_walk", "laplacian", "symmetric_laplacian", "random_walk_laplacian"
]
Entries = tuple[Tensor, Tensor, Tensor]
"""The rows, columns and values of a matrix's entries."""


@dataclass(frozen=True, eq=False)
class Graph:
    r"""A graph by its edges ``edge_index`` (2, E), from source to target; an undirected edge is listed both ways.

    The number of ``nodes`` is given, never inferred, so that isolated nodes are not lost. For a union of graphs,
    ``parts`` are their numbers of nodes. With :math:`A_{vu}` the weight of the edges from u to v and :math:`D` the
    diagonal matrix of the degrees, the operators of a graph are

    ===================== ============================================= =============================================
    adjacency             :math:`A`                                     the sum over the neighbors
    gcn                   :math:`D^{-1/2} A D^{-1/2}`                   with every node a neighbor of itself
    symmetric             :math:`D^{-1/2} A D^{-1/2}`
    random_walk           :math:`D^{-1} A`                              the mean over the neighbors
    laplacian             :math:`D - A`
    symmetric_laplacian   :math:`D^{-1/2} (D - A) D^{-1/2}`
    random_walk_laplacian :math:`D^{-1} (D - A)`
    ===================== ============================================= =============================================

    The inverse of a degree 0 is taken as 0: an isolated node has a row of zeros, except in gcn.

    >>> graph = Graph(torch.tensor([[0, 1], [1, 0]]), nodes=3)
    >>> graph.degrees()
    tensor([1., 1., 0.])
    >>> graph.operator("laplacian").to_dense()
    tensor([[ 1., -1.,  0.],
            [-1.,  1.,  0.],
            [ 0.,  0.,  0.]])
    """

    edge_index: Tensor
    nodes: int
    weight: Tensor | None = None
    parts: tuple[int, ...] = ()
    _operators: dict[tuple[str, torch.dtype], Sparse] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.edge_index.ndim != 2 or self.edge_index.shape[0] != 2:
            raise DataError(f"edge_index must have the shape (2, E), got {tuple(self.edge_index.shape)}")
        if self.weight is not None and self.weight.shape != self.edge_index.shape[1:]:
            raise DataError(f"{self.edge_index.shape[1]} edges need as many weights, got {tuple(self.weight.shape)}")
        if self.weight is not None and self.weight.requires_grad:
            raise UsageError("the weights of a graph are constants; detach them, or multiply by Sparse.with_values")
        if self.parts and sum(self.parts) != self.nodes:
            raise DataError(f"the parts have {sum(self.parts)} nodes together, the graph has {self.nodes}")
        if self.edge_index.is_meta or not self.edge_index.numel():
            return
        if not 0 <= int(self.edge_index.min()) <= int(self.edge_index.max()) < self.nodes:
            raise DataError(f"edges must join nodes 0 to {self.nodes - 1}")

    @classmethod
    def of(cls, graph: Graph | Tensor, nodes: int) -> Graph:
        """The graph itself, or the graph with this ``edge_index``; either must have ``nodes`` nodes."""
        if isinstance(graph, Tensor):
            return cls(graph, nodes)
        if graph.nodes != nodes:
            raise DataError(f"a graph of {graph.nodes} nodes needs as many rows of features, got {nodes}")
        return graph

    @classmethod
    def union(cls, graphs: Sequence[Graph]) -> Graph:
        """The disjoint union of graphs, whose operators are block-diagonal: this is how graphs are batched.

        >>> pair = Graph(torch.tensor([[0, 1], [1, 0]]), nodes=2)
        >>> Graph.union([pair, pair]).edge_index
        tensor([[0, 1, 2, 3],
                [1, 0, 3, 2]])
        """
        if not graphs:
            raise UsageError("a union needs at least one graph")
        sizes = [graph.nodes for graph in graphs]
        ends = torch.tensor(sizes).cumsum(0).tolist()
        edges = [graph.edge_index + end - graph.nodes for graph, end in zip(graphs, ends, strict=True)]
        weighted = any(graph.weight is not None for graph in graphs)
        weight = torch.cat([graph.weights() for graph in graphs]) if weighted else None
        parts = tuple(size for graph in graphs for size in graph.parts or (graph.nodes,))
        return cls(torch.cat(edges, 1), ends[-1], weight, parts)

    def membership(self) -> Tensor:
        """The index of the graph that each node of a union belongs to, (nodes,)."""
        sizes = torch.tensor(self.parts or (self.nodes,), device=self.edge_index.device)
        return torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes, output_size=self.nodes)

    def weights(self) -> Tensor:
        """The weight of each edge, 1 where none is given, (E,)."""
        return torch.ones_like(self.edge_index[0], dtype=torch.float32) if self.weight is None else self.weight

    def degrees(self) -> Tensor:
        """The sum of the weights of the edges that arrive at each node, (nodes,)."""
        weights = self.weights()
        return weights.new_zeros(self.nodes).index_add(0, self.edge_index[1], weights)

    def operator(self, name: Operator, dtype: torch.dtype = torch.float32) -> Sparse:
        """The operator of this name as a sparse matrix (nodes, nodes); it is made once and kept."""
        if name not in _OPERATORS:
            raise UsageError(f"a graph has no operator {name!r}; it has {', '.join(get_args(Operator))}")
        if (name, dtype) not in self._operators:
            if dtype == torch.float64:
                matrix = Sparse.from_entries(*_OPERATORS[name](self), (self.nodes, self.nodes))
            else:
                matrix = self.operator(name, torch.float64).to(dtype)
            self._operators[name, dtype] = matrix
        return self._operators[name, dtype]

    def to(self, device: torch.device | str) -> Graph:
        if torch.device(device) == self.edge_index.device:
            return self  # with its operators
        weight = None if self.weight is None else self.weight.to(device)
        return Graph(self.edge_index.to(device), self.nodes, weight, self.parts)


def _adjacency(graph: Graph) -> Entries:
    source, target = graph.edge_index
    return target, source, graph.weights().double()


def _with_loops(graph: Graph) -> Entries:
    """The adjacency matrix with a self-loop at each node; a self-loop that is there already keeps its weight."""
    rows, columns, values = _adjacency(graph)
    looped = values.new_zeros(graph.nodes).index_add(0, rows, (rows == columns).to(values.dtype))
    return _joined((rows, columns, values), _diagonal((looped == 0).to(values.dtype)))


def _symmetric(entries: Entries, nodes: int) -> Entries:
    rows, columns, values = entries
    scale = _inverse(values.new_zeros(nodes).index_add(0, rows, values)).sqrt()
    return rows, columns, values * (scale[rows] * scale[columns])  # in this order it is symmetric to the last bit


def _random_walk(graph: Graph) -> Entries:
    rows, columns, values = _adjacency(graph)
    return rows, columns, values * _inverse(graph.degrees().double())[rows]


def _laplacian(graph: Graph) -> Entries:
    return _minus(_diagonal(graph.degrees().double()), _adjacency(graph))


def _symmetric_laplacian(graph: Graph) -> Entries:
    return _minus(_connected(graph), _symmetric(_adjacency(graph), graph.nodes))


def _random_walk_laplacian(graph: Graph) -> Entries:
    return _minus(_connected(graph), _random_walk(graph))


_OPERATORS: dict[str, Callable[[Graph], Entries]] = {
    "adjacency": _adjacency,
    "gcn": lambda graph: _symmetric(_with_loops(graph), graph.nodes),
    "symmetric": lambda graph: _symmetric(_adjacency(graph), graph.nodes),
    "random_walk": _random_walk,
    "laplacian": _laplacian,
    "symmetric_laplacian": _symmetric_laplacian,
    "random_walk_laplacian": _random_walk_laplacian,
}


def _inverse(degrees: Tensor) -> Tensor:
    return torch.where(degrees > 0, degrees.reciprocal(), 0.0)


def _connected(graph: Graph) -> Entries:
    """The identity, but 0 where no edge arrives."""
    return _diagonal((graph.degrees() > 0).double())


def _diagonal(values: Tensor) -> Entries:
    nodes = torch.arange(len(values), device=values.device)
    return nodes, nodes, values


def _minus(left: Entries, right: Entries) -> Entries:
    rows, columns, values = right
    return _joined(left, (rows, columns, -values))


def _joined(left: Entries, right: Entries) -> Entries:
    rows, columns, values = (torch.cat(pair) for pair in zip(left, right, strict=True))
    return rows, columns, values
