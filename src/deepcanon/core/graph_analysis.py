"""Questions that a graph answers: Laplacians, frequencies, cuts, clusters, communities, influence, positions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor

from deepcanon.core import graph_communities, graph_making
from deepcanon.core.chebyshev import chebyshev_coefficients, chebyshev_sum
from deepcanon.core.display import Shown, notebook, table
from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.graph_arguments import choice, share, shown, signal, whole
from deepcanon.core.graph_making import NeighborWeight
from deepcanon.core.graph_spectrum import DENSE, Spectrum, component_positions, gains_of
from deepcanon.core.sketch import graph_sketch
from deepcanon.core.sparse import Sparse

if TYPE_CHECKING:
    from deepcanon.core.graph import Graph

LaplacianKind = Literal["combinatorial", "symmetric", "random_walk"]
LAPLACIANS: dict[str, Any] = {
    "combinatorial": "laplacian",
    "symmetric": "symmetric_laplacian",
    "random_walk": "random_walk_laplacian",
}


class GraphAnalysis(Shown):
    """The questions that a :class:`Graph` answers beyond its operators."""

    def _repr_html_(self) -> str:
        return notebook("Graph", table([], self._facts().items()), graph_sketch(self._whole))

    @classmethod
    def from_networkx(cls, graph: Any, weight: str | None = "weight") -> Self:
        """A graph of networkx, with its nodes numbered in their order, which ``names`` keeps.

        >>> import networkx
        >>> from deepcanon.core import Graph
        >>> Graph.from_networkx(networkx.path_graph(["a", "b", "c"])).names
        ('a', 'b', 'c')
        """
        return cls._of(graph_making.of_networkx(graph, weight))

    @classmethod
    def from_edge_csv(cls, path: str | Path, *, directed: bool = False) -> Self:
        """The edges in a CSV file: the columns ``source`` and ``target``, or the first two, and perhaps ``weight``.

        Nodes are numbered in the order in which they occur; ``names`` keeps what they are called. An edge that is
        listed again, also in the other direction unless the graph is ``directed``, counts once.
        """
        if not isinstance(path, str | Path):
            raise UsageError(f"from_edge_csv takes the path of a CSV file, got {shown(path)}")
        return cls._of(graph_making.of_edge_csv(Path(path).expanduser(), directed))

    @classmethod
    def knn(cls, points: Any, k: int = 10, *, directed: bool = False, weight: NeighborWeight = "none") -> Self:
        """The graph of the ``k`` nearest neighbors of each of the ``points``, (nodes, dimensions).

        An edge leads from a neighbor to the point whose neighbor it is. Undirected, the adjacency matrix is the mean of
        both directions: 1 where two points are neighbors of each other, 1/2 where one is. The ``weight`` of an edge may
        be its length, ``distance``, or ``gaussian``, which falls with it; each is the same in both directions.
        """
        return cls._of(graph_making.of_points(points, k, directed, weight))

    @classmethod
    def _of(cls, parts: graph_making.Parts) -> Self:
        edges, nodes, weight, names = parts
        make: Any = cls
        made: Self = make(edges, nodes, weight, names=names)
        return made

    @property
    def _whole(self) -> Graph:
        graph: Any = self
        return graph  # type: ignore[no-any-return]

    def laplacian(self, kind: LaplacianKind = "combinatorial", dtype: torch.dtype = torch.float64) -> Sparse:
        """The Laplacian: combinatorial D - A, symmetric D^-1/2 (D - A) D^-1/2, or random_walk D^-1 (D - A)."""
        choice(kind, LAPLACIANS, f"a Laplacian is {', '.join(LAPLACIANS)}")
        return self._whole.operator(LAPLACIANS[kind], dtype)

    def incidence(self) -> Sparse:
        """The incidence matrix P of an undirected graph in float64, (nodes, edges): the Laplacian is P P^T.

        Each edge has a column, with the root of its weight at the node of the smaller number and less that at the
        other; a loop, which changes no Laplacian, has none.
        """
        if self.laplacian().T is not self.laplacian():
            raise DataError("an incidence matrix is that of an undirected graph; list every edge in both directions")
        source, target = self._whole.edge_index
        once = source < target
        ends, root = torch.stack([source[once], target[once]]), self._whole.weights()[once].double().sqrt()
        columns = torch.arange(ends.shape[1], device=ends.device)
        shape = (self._whole.nodes, ends.shape[1])
        return Sparse.from_entries(ends.flatten(), columns.repeat(2), torch.cat([root, -root]), shape)

    def variation(self, x: Tensor) -> Tensor:
        r"""The quadratic form of a signal (nodes, ...): how much it changes along the edges, (...).

        .. math:: x^\top L x = \sum_{u < v} w_{uv} (x_u - x_v)^2
        """
        x = signal(x, self._whole.nodes)
        laplacian = self.laplacian(dtype=torch.promote_types(x.dtype, torch.float32))
        return (x * (laplacian @ x.flatten(1) if x.ndim > 1 else laplacian @ x).view_as(x)).sum(0)

    def fourier(self, k: int | None = None, kind: Literal["combinatorial", "symmetric"] = "combinatorial") -> Spectrum:
        """The graph Fourier basis, of the ``k`` lowest frequencies or of all: its ``transform`` is that of a signal."""
        _orthogonal(kind)
        return self._whole.spectrum(k, LAPLACIANS[kind])

    def filter(
        self,
        response: Callable[[Tensor], Tensor],
        x: Tensor,
        *,
        kind: Literal["combinatorial", "symmetric"] = "combinatorial",
        order: int = 60,
    ) -> Tensor:
        """A signal (nodes, ...) with each of its frequencies multiplied by a ``response``, a function of frequencies.

        Up to some hundred nodes it is exact, by eigenvectors. For a larger graph the response is replaced by its
        Chebyshev polynomial of this ``order``, which needs so many products with the Laplacian and no eigenvectors.
        """
        x = signal(x, self._whole.nodes)
        _orthogonal(kind)
        order = whole(order, "the order of a polynomial of frequencies", 1)
        if self._whole.nodes <= DENSE:
            return self.fourier(kind=kind).filter(response, x)
        precision = torch.promote_types(x.dtype, torch.float32)
        laplacian = self.laplacian(kind)
        if laplacian.T is not laplacian:
            raise DataError("the Laplacian of a directed graph is not symmetric; list every edge in both directions")
        most = 2.0 if kind == "symmetric" else 2.0 * float(self._whole.degrees().max())  # no eigenvalue is larger
        if most == 0:
            return gains_of(response, torch.zeros(1, dtype=precision, device=x.device)) * x
        weights = chebyshev_coefficients(lambda frequency: gains_of(response, frequency * most / 2).double(), order)
        columns = x.double().reshape(len(x), -1)
        scaled = laplacian.with_values(laplacian.values * (2 / most))
        scaled.__dict__["T"] = scaled  # known to be symmetric
        return chebyshev_sum(scaled, weights.view(-1, 1, 1) * columns).reshape(x.shape).to(precision)

    def components(self) -> Tensor:
        """The number of the connected component of every node, whatever the directions of edges, (nodes,)."""
        return self._components

    def fiedler(self) -> tuple[float, Tensor]:
        """The second smallest eigenvalue of the Laplacian, the algebraic connectivity, and its eigenvector.

        The signs of the Fiedler vector part the nodes where few edges are cut. Of a graph that is not connected the
        eigenvalue is 0 and any vector of components would do; it is refused.
        """
        if self._whole.nodes < 2 or (parts := int(self._components.max()) + 1) > 1:
            raise DataError(
                f"the Fiedler vector parts a connected graph; this has {self._whole.nodes} nodes"
                + (f" in {parts} components, which components() gives" if self._whole.nodes > 1 else "")
            )
        spectrum = self._whole.spectrum(2)
        return float(spectrum.values[1]), spectrum.vectors[:, 1]

    def spectral_embedding(self, k: int) -> Tensor:
        """The coordinates of every node by the ``k`` lowest eigenvectors of the random-walk Laplacian, (nodes, k)."""
        return graph_communities.embedding(self._whole, whole(k, "the number of eigenvectors", 1))

    def spectral_clustering(self, k: int, *, seed: int = 0) -> Tensor:
        """``k`` clusters of nodes with few edges between them: k-means on the spectral embedding, (nodes,).

        It is the relaxation of the normalized cut (Shi and Malik, 2000). Of a graph of k components it finds these.
        """
        k, seed = whole(k, "the number of clusters", 1), whole(seed, "seed")
        return graph_communities.spectral_clusters(self._whole, k, seed)

    def communities(self, *, seed: int = 0) -> Tensor:
        """Communities of high modularity by the Louvain method, the largest first, (nodes,); their number is found."""
        return graph_communities.louvain(self._whole, whole(seed, "seed"))

    def modularity(self, labels: Tensor) -> float:
        """The share of edges within the clusters of ``labels`` beyond that of random edges with the same degrees."""
        return graph_communities.modularity(self._whole, labels)

    def ratio_cut(self, labels: Tensor) -> float:
        """Half the sum over clusters of the weight of the edges that leave one over its number of nodes."""
        return graph_communities.ratio_cut(self._whole, labels)

    def influence(self, damping: float = 0.85) -> Tensor:
        """PageRank: how often a random walk comes to each node, which begins anew with probability 1 - damping."""
        return graph_communities.page_rank(self._whole, share(damping, "damping is the probability to walk on"))

    def positions(self, k: int) -> Tensor:
        """Laplacian positions: the ``k`` lowest eigenvectors of each component but the constant one, (nodes, k).

        They are those of the symmetric Laplacian, whatever the directions of edges, with the signs of the spectrum's
        rule and a mean square of 1 over the component; of a component of fewer nodes the rest is 0. Found once.
        """
        k = whole(k, "the number of positions")
        if k not in self._positions and self._whole.edge_index.is_meta:
            self._positions[k] = self._components.new_empty(self._whole.nodes, k, dtype=torch.float64)
        elif k not in self._positions:
            self._positions[k] = component_positions(self._whole.edge_index, self._whole.weights(), self._components, k)
        return self._positions[k]

    @cached_property
    def _positions(self) -> dict[int, Tensor]:
        return {}

    @cached_property
    def _components(self) -> Tensor:
        return graph_communities.components(self._whole)

    @cached_property
    def groups(self) -> list[Tensor]:
        """The nodes of all components as rows, (components, largest), those of like sizes together, padded by -1.

        A component is at most half padding, so that whatever all its nodes do with each other wastes little.
        """
        owner = self._components
        if owner.is_meta:
            return [owner.unsqueeze(0)]
        sizes = owner.bincount()
        order = owner.argsort(stable=True)
        starts = sizes.cumsum(0) - sizes
        found = []
        level = sizes.double().log2().ceil()
        for each in level.unique():
            chosen = (level == each).nonzero().squeeze(1)
            place = torch.arange(int(sizes[chosen].max()), device=owner.device)
            there = place < sizes[chosen].unsqueeze(1)
            rows = order[(starts[chosen].unsqueeze(1) + place).clamp_max(len(order) - 1)]
            found.append(torch.where(there, rows, -1))
        return found


def _orthogonal(kind: str) -> None:
    choice(kind, ("combinatorial", "symmetric"), "orthogonal eigenvectors have combinatorial and symmetric")
