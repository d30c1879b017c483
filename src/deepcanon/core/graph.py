"""Graphs as edge lists, with their adjacency and Laplacian matrices as sparse operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.graph_analysis import GraphAnalysis
from deepcanon.core.graph_arguments import edge_values, positions_of, precision, shown, whole
from deepcanon.core.graph_spectrum import Spectrum, smallest_eigenpairs
from deepcanon.core.sparse import Pattern, Sparse, ranges, sorted_pattern

Operator = Literal[
    "adjacency", "gcn", "symmetric", "random_walk", "laplacian", "symmetric_laplacian", "random_walk_laplacian"
]
Laplacian = Literal["laplacian", "symmetric_laplacian"]
"""The operators with a real spectrum and orthogonal eigenvectors, where the graph is undirected."""
Entries = tuple[Tensor, Tensor, Tensor]
"""The rows, columns and values of a matrix's entries."""


@dataclass(frozen=True, eq=False)
class Graph(GraphAnalysis):
    r"""A graph by its edges ``edge_index`` (2, E), from source to target; an undirected edge is listed both ways.

    The number of ``nodes`` is given, never inferred, so that isolated nodes are not lost. An edge may have a
    ``weight``, which the operators use, and ``edge_features``, (E, features), which are for layers that take them. For
    a union of graphs, ``parts`` are their numbers of nodes; ``names`` may say what nodes are called. With
    :math:`A_{vu}` the weight of the edges from u to v and :math:`D` the diagonal matrix of the degrees, the operators
    of a graph are

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
    edge_features: Tensor | None = None
    names: tuple[Any, ...] = field(default=(), repr=False)
    _operators: dict[tuple[str, torch.dtype], Sparse] = field(default_factory=dict, init=False, repr=False)
    _patterns: dict[str, tuple[Pattern, Tensor]] = field(default_factory=dict, init=False, repr=False)
    _spectra: dict[tuple[str, int], Spectrum] = field(default_factory=dict, init=False, repr=False)
    _origin: tuple[Graph, Tensor] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.edge_index, Tensor) or self.edge_index.dtype not in (torch.int32, torch.int64):
            kind = getattr(self.edge_index, "dtype", type(self.edge_index).__name__)
            raise DataError(f"edge_index must be a tensor of whole numbers, int64 or int32, got {kind}")
        if self.edge_index.ndim != 2 or self.edge_index.shape[0] != 2:
            raise DataError(f"edge_index must have the shape (2, E), got {tuple(self.edge_index.shape)}")
        edges = self.edge_index.shape[1]
        whole(self.nodes, "the number of nodes", error=DataError)
        for name in ("parts", "names"):
            if not isinstance(getattr(self, name), tuple | list):
                raise DataError(f"the {name} of a graph are a tuple; got {shown(getattr(self, name))}")
        if self.weight is not None and edge_values(self.weight, edges, "weights").shape != self.edge_index.shape[1:]:
            raise DataError(f"{edges} edges need as many weights, got {tuple(self.weight.shape)}")
        if self.weight is not None and self.weight.requires_grad:
            raise UsageError("the weights of a graph are constants; give learned ones to operator(name, weight=...)")
        if self.edge_features is not None:
            shape = tuple(edge_values(self.edge_features, edges, "features").shape)
            if len(shape) != 2 or shape[0] != edges:
                raise DataError(f"{edges} edges need edge features of the shape (edges, features), got {shape}")
        if self.names and len(self.names) != self.nodes:
            raise DataError(f"{self.nodes} nodes need as many names, got {len(self.names)}")
        if (
            self.parts
            and sum(whole(part, "a part's number of nodes", error=DataError) for part in self.parts) != self.nodes
        ):
            raise DataError(f"the parts have {sum(self.parts)} nodes together, the graph has {self.nodes}")
        if self.edge_index.is_meta or not self.edge_index.numel():
            return
        if not 0 <= int(self.edge_index.min()) <= int(self.edge_index.max()) < self.nodes:
            raise DataError(f"edges must join nodes 0 to {self.nodes - 1}")

    def _facts(self) -> dict[str, Any]:
        found = {"weight": self.weight, "parts": len(self.parts) or None, "edge_features": self.edge_features}
        counts = {"nodes": self.nodes, "edges": self.edge_index.shape[1]}
        return counts | {name: value for name, value in found.items() if value is not None}

    @classmethod
    def of(cls, graph: Graph | Tensor, nodes: int, edge_features: int | None = None) -> Graph:
        """The graph itself, or the graph with this ``edge_index``, as a layer takes it.

        It must have ``nodes`` nodes, and so many ``edge_features`` as the layer reads: none, unless it says so.
        """
        if isinstance(graph, Tensor):
            graph = cls(graph, nodes)
        if graph.nodes != nodes:
            raise DataError(f"a graph of {graph.nodes} nodes needs as many rows of features, got {nodes}")
        given = None if graph.edge_features is None else graph.edge_features.shape[1]
        if given != edge_features:
            raise DataError(
                f"the layer takes {edge_features or 'no'} features per edge, the graph has {given or 'none'}; "
                "take a layer for so many, or a graph without them"
            )
        return graph

    @classmethod
    def union(cls, graphs: Sequence[Graph]) -> Graph:
        """The disjoint union of graphs, whose operators are block-diagonal: this is how graphs are batched.

        >>> pair = Graph(torch.tensor([[0, 1], [1, 0]]), nodes=2)
        >>> Graph.union([pair, pair]).edge_index
        tensor([[0, 1, 2, 3],
                [1, 0, 3, 2]])
        """
        if not isinstance(graphs, Sequence) or not graphs or not all(isinstance(graph, Graph) for graph in graphs):
            raise UsageError(f"a union needs at least one graph, in a list of graphs; got {shown(graphs)}")
        sizes = [graph.nodes for graph in graphs]
        ends = torch.tensor(sizes).cumsum(0).tolist()
        edges = [graph.edge_index + end - graph.nodes for graph, end in zip(graphs, ends, strict=True)]
        weighted = any(graph.weight is not None for graph in graphs)
        weight = torch.cat([graph.weights() for graph in graphs]) if weighted else None
        parts = tuple(size for graph in graphs for size in graph.parts or (graph.nodes,))
        features = [graph.edge_features for graph in graphs if graph.edge_features is not None]
        if features and (len(features) < len(graphs) or len({each.shape[1] for each in features}) > 1):
            raise DataError("all graphs of a union need edge features, and as many, or none of them")
        return cls(torch.cat(edges, 1), ends[-1], weight, parts, torch.cat(features) if features else None)

    def select(self, index: Tensor) -> Graph:
        """The union of the parts at these positions, in this order; a part may be chosen several times.

        >>> pair, one = Graph(torch.tensor([[0, 1], [1, 0]]), nodes=2), Graph(torch.empty(2, 0).long(), nodes=1)
        >>> Graph.union([pair, one]).select(torch.tensor([1, 0, 0])).edge_index
        tensor([[1, 2, 3, 4],
                [2, 1, 4, 3]])
        """
        if getattr(index, "is_meta", False):
            return self._any(len(index))
        places, index = self._places, positions_of(index, len(self.parts) or 1)
        sizes, counts = places.sizes[index], places.edge_counts[index]
        chosen = ranges(places.edge_starts[index], counts)
        moved = (sizes.cumsum(0) - sizes - places.starts[index]).repeat_interleave(counts, output_size=len(chosen))
        weight, features = (
            None if values is None else values.index_select(0, chosen) for values in (self.weight, self.edge_features)
        )
        parts = tuple(sizes.tolist())
        union = Graph(self.edge_index.index_select(1, chosen) + moved, sum(parts), weight, parts, features)
        object.__setattr__(union, "_origin", (self, index))
        return union

    def rows(self, index: Tensor) -> Tensor:
        """The numbers of the nodes of the parts at these positions, part by part."""
        if getattr(index, "is_meta", False):
            return index.new_empty(self._any(len(index)).nodes)
        index = positions_of(index, len(self.parts) or 1)
        return ranges(self._places.starts[index], self._places.sizes[index])

    def _any(self, count: int) -> Graph:
        """So many parts without values, for an index on the meta device, which does not say which parts."""
        sizes = self.parts or (self.nodes,)
        parts = tuple(sizes[i % len(sizes)] for i in range(count))
        edges = self.edge_index.shape[1] // len(sizes) * count
        weight, features = (
            None if values is None else values.new_empty(edges, *values.shape[1:])
            for values in (self.weight, self.edge_features)
        )
        return Graph(self.edge_index.new_empty(2, edges), sum(parts), weight, parts, features)

    @cached_property
    def _places(self) -> _Places:
        """Where the nodes and the edges of each part begin and how many there are; edges are listed part by part."""
        sizes = torch.tensor(self.parts or (self.nodes,), device=self.edge_index.device)
        source, target = self.membership()[self.edge_index]
        if not torch.equal(source, target):
            raise DataError("an edge joins two parts of the union; the edges of a part join its own nodes only")
        if bool((source.diff() < 0).any()):
            raise DataError("the edges of a union must be listed part by part, as Graph.union lists them")
        counts = source.bincount(minlength=len(sizes))
        return _Places(sizes.cumsum(0) - sizes, sizes, counts.cumsum(0) - counts, counts)

    def membership(self) -> Tensor:
        """The index of the graph that each node of a union belongs to, (nodes,)."""
        return self._membership

    @cached_property
    def _membership(self) -> Tensor:
        sizes = torch.tensor(self.parts or (self.nodes,), device=self.edge_index.device)
        return torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes, output_size=self.nodes)

    def weights(self) -> Tensor:
        """The weight of each edge, 1 where none is given, (E,)."""
        return torch.ones_like(self.edge_index[0], dtype=torch.float32) if self.weight is None else self.weight

    def degrees(self) -> Tensor:
        """The sum of the weights of the edges that arrive at each node, (nodes,)."""
        return _degrees(self, self.weights())

    def operator(self, name: Operator, dtype: torch.dtype = torch.float32, *, weight: Tensor | None = None) -> Sparse:
        """The operator of this name as a sparse matrix (nodes, nodes); it is made once and kept.

        With a ``weight`` of each edge, (E,), it is made of these weights in place of the graph's own, in their
        precision, and gradients flow to them; only the sorting of the edges is kept.
        """
        if not isinstance(name, str) or name not in _OPERATORS:
            raise UsageError(f"a graph has no operator {shown(name)}; it has {', '.join(get_args(Operator))}")
        dtype = precision(dtype)
        if weight is not None:
            if edge_values(weight, self.edge_index.shape[1], "weights").shape != self.edge_index.shape[1:]:
                raise DataError(f"{self.edge_index.shape[1]} edges need as many weights, got {tuple(weight.shape)}")
            return self._made(name, weight)
        if (name, dtype) not in self._operators:
            if self._origin is not None:  # the blocks of the operator that is there already need no sorting
                whole, index = self._origin
                matrix = whole.operator(name, dtype).blocks(whole._places.starts[index], whole._places.sizes[index])
            elif dtype == torch.float64:
                matrix = self._made(name, self._checked_weights(name))
            else:
                matrix = self.operator(name, torch.float64).to(dtype)
            self._operators[name, dtype] = matrix
        return self._operators[name, dtype]

    def _checked_weights(self, name: str) -> Tensor:
        """The weights in float64; to divide by degrees, they may not be negative."""
        weights = self.weights().double()
        if not weights.is_meta and not bool(weights.isfinite().all()):
            raise DataError("the weights of edges must be finite numbers; some are infinite or not a number")
        if name not in ("adjacency", "laplacian") and not weights.is_meta and bool((weights < 0).any()):
            raise DataError(f"{name} divides by degrees, sums of weights that must be 0 or more; some are negative")
        return weights

    def _made(self, name: str, weights: Tensor) -> Sparse:
        rows, columns, values = _OPERATORS[name](self, weights)
        if name not in self._patterns:
            self._patterns[name] = sorted_pattern(rows, columns, (self.nodes, self.nodes))
        pattern, order = self._patterns[name]
        return Sparse(pattern, values[order])

    def spectrum(self, k: int | None = None, operator: Laplacian = "laplacian") -> Spectrum:
        """The ``k`` smallest eigenvalues of a Laplacian with their eigenvectors, in float64; all of them by default.

        They are found once and kept. The signs of eigenvectors are fixed by a rule, and those of an eigenvalue that
        occurs several times are some orthonormal basis of their space.

        >>> Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=3).spectrum().values.round(decimals=6).abs()
        tensor([0., 1., 3.], dtype=torch.float64)
        """
        k = self.nodes if k is None else k
        if operator not in get_args(Laplacian):
            raise UsageError(f"a spectrum is that of {' or '.join(get_args(Laplacian))}, got {operator!r}")
        if not isinstance(k, int) or not 1 <= k <= self.nodes:
            raise UsageError(f"a graph of {self.nodes} nodes has 1 to {self.nodes} eigenvalues, got k={k}")
        if (operator, k) not in self._spectra:
            self._spectra[operator, k] = smallest_eigenpairs(self.operator(operator, torch.float64), k)
        return self._spectra[operator, k]

    def to(self, device: torch.device | str) -> Graph:
        if torch.device(device) == self.edge_index.device:
            return self  # with its operators
        weight, features = (
            None if values is None else values.to(device) for values in (self.weight, self.edge_features)
        )
        return Graph(self.edge_index.to(device), self.nodes, weight, self.parts, features, self.names)


@dataclass(frozen=True, eq=False)
class _Places:
    """Of each part of a union the first node, the number of nodes, the first edge and the number of edges."""

    starts: Tensor
    sizes: Tensor
    edge_starts: Tensor
    edge_counts: Tensor


def _degrees(graph: Graph, weights: Tensor) -> Tensor:
    return weights.new_zeros(graph.nodes).index_add(0, graph.edge_index[1], weights)


def _adjacency(graph: Graph, weights: Tensor) -> Entries:
    source, target = graph.edge_index
    return target, source, weights


def _with_loops(graph: Graph, weights: Tensor) -> Entries:
    """The adjacency matrix with a self-loop at each node; a self-loop that is there already keeps its weight."""
    rows, columns, values = _adjacency(graph, weights)
    looped = values.new_zeros(graph.nodes).index_add(0, rows, (rows == columns).to(values.dtype))
    return _joined((rows, columns, values), _diagonal((looped == 0).to(values.dtype)))


def _symmetric(entries: Entries, nodes: int) -> Entries:
    rows, columns, values = entries
    inverse, there = _inverse(values.new_zeros(nodes).index_add(0, rows, values))
    scale = inverse.sqrt() * there
    return rows, columns, values * (scale[rows] * scale[columns])  # in this order it is symmetric to the last bit


def _random_walk(graph: Graph, weights: Tensor) -> Entries:
    rows, columns, values = _adjacency(graph, weights)
    inverse, there = _inverse(_degrees(graph, weights))
    return rows, columns, values * (inverse * there)[rows]


def _laplacian(graph: Graph, weights: Tensor) -> Entries:
    return _minus(_diagonal(_degrees(graph, weights)), _adjacency(graph, weights))


def _symmetric_laplacian(graph: Graph, weights: Tensor) -> Entries:
    return _minus(_connected(graph, weights), _symmetric(_adjacency(graph, weights), graph.nodes))


def _random_walk_laplacian(graph: Graph, weights: Tensor) -> Entries:
    return _minus(_connected(graph, weights), _random_walk(graph, weights))


_OPERATORS: dict[str, Callable[[Graph, Tensor], Entries]] = {
    "adjacency": _adjacency,
    "gcn": lambda graph, weights: _symmetric(_with_loops(graph, weights), graph.nodes),
    "symmetric": lambda graph, weights: _symmetric(_adjacency(graph, weights), graph.nodes),
    "random_walk": _random_walk,
    "laplacian": _laplacian,
    "symmetric_laplacian": _symmetric_laplacian,
    "random_walk_laplacian": _random_walk_laplacian,
}


def _inverse(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse degrees, and where they are positive; elsewhere the inverse is 1, so that its gradient is finite."""
    there = degrees > 0
    return torch.where(there, degrees, 1.0).reciprocal(), there


def _connected(graph: Graph, weights: Tensor) -> Entries:
    """The identity, but 0 where no edge arrives."""
    return _diagonal((_degrees(graph, weights) > 0).to(weights.dtype))


def _diagonal(values: Tensor) -> Entries:
    nodes = torch.arange(len(values), device=values.device)
    return nodes, nodes, values


def _minus(left: Entries, right: Entries) -> Entries:
    rows, columns, values = right
    return _joined(left, (rows, columns, -values))


def _joined(left: Entries, right: Entries) -> Entries:
    rows, columns, values = (torch.cat(pair) for pair in zip(left, right, strict=True))
    return rows, columns, values
