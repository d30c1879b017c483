"""Parts of a graph that belong together: components, clusters by eigenvectors, communities, and how good they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from deepcanon.core.errors import DataError
from deepcanon.core.graph_arguments import tensor

if TYPE_CHECKING:
    from deepcanon.core.graph import Graph

RESTARTS = 10
"""How many times k-means begins anew; the tightest clusters are taken."""
ITERATIONS = 100


def components(graph: Graph) -> Tensor:
    """The number of the connected component of every node, whatever the directions of edges, (nodes,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if graph.edge_index.is_meta:
        return graph.edge_index.new_empty(graph.nodes)
    source, target = graph.edge_index.cpu().numpy()
    matrix = coo_array((torch.ones(len(source)).numpy(), (source, target)), shape=(graph.nodes, graph.nodes))
    _, found = connected_components(matrix.tocsr(), directed=False)
    return torch.from_numpy(found).long().to(graph.edge_index.device)


def spectral_clusters(graph: Graph, k: int, seed: int) -> Tensor:
    """Clusters of nodes by k-means among the rows of the k lowest eigenvectors, (nodes,)."""
    rows = embedding(graph, k)
    random = torch.Generator(rows.device).manual_seed(seed)
    found = [_k_means(rows, k, random) for _ in range(RESTARTS)]
    return min(found, key=lambda each: each[1])[0]


def _k_means(rows: Tensor, k: int, random: Generator) -> tuple[Tensor, float]:
    """The nearest of k centers of each row and the sum of squares to them, from centers drawn far apart (k-means++)."""
    first = torch.randint(len(rows), (1,), generator=random, device=rows.device)
    centers, squares = rows[first], (rows - rows[first]).square().sum(1)
    for _ in range(k - 1):
        far = squares if float(squares.sum()) > 0 else torch.ones_like(squares)
        new = rows[torch.multinomial(far, 1, generator=random)]
        centers, squares = torch.cat([centers, new]), torch.minimum(squares, (rows - new).square().sum(1))
    lengths, numbers = rows.square().sum(1), torch.arange(k, device=rows.device)
    labels = torch.full((len(rows),), -1, device=rows.device)
    for _ in range(ITERATIONS):
        distances = centers.square().sum(1) - 2 * rows @ centers.T
        before, labels = labels, distances.argmin(1)
        if torch.equal(labels, before):
            break
        chosen = (labels.unsqueeze(1) == numbers).to(rows.dtype)
        sums, counts = chosen.T @ rows, chosen.sum(0).unsqueeze(1)
        centers = torch.where(counts > 0, sums / counts.clamp_min(1), centers)  # one without rows stays where it is
    return labels, float((lengths + distances.amin(1)).sum())


def embedding(graph: Graph, k: int) -> Tensor:
    """The k lowest eigenvectors of the random-walk Laplacian, those of the symmetric one over the roots of degrees."""
    spectrum = graph.spectrum(k, "symmetric_laplacian")
    degrees = graph.degrees().double()
    return spectrum.vectors / torch.where(degrees > 0, degrees, 1.0).sqrt().unsqueeze(1)


def louvain(graph: Graph, seed: int) -> Tensor:
    """Communities of high modularity by the Louvain method, the largest first, (nodes,)."""
    from networkx import Graph as Undirected
    from networkx.algorithms.community import louvain_communities

    _undirected(graph, "communities")
    whole: Any = Undirected()
    whole.add_nodes_from(range(graph.nodes))
    ends, weights = graph.edge_index.T.tolist(), graph.weights().tolist()
    added: dict[tuple[int, int], float] = {}  # several edges between two nodes add up
    for (a, b), weight in zip(ends, weights, strict=True):
        if a <= b:
            added[a, b] = added.get((a, b), 0.0) + weight
    whole.add_weighted_edges_from((a, b, weight) for (a, b), weight in added.items())
    found = sorted(louvain_communities(whole, seed=seed), key=lambda nodes: (-len(nodes), min(nodes)))
    labels = torch.empty(graph.nodes, dtype=torch.long)
    for number, nodes in enumerate(found):
        labels[sorted(nodes)] = number
    return labels.to(graph.edge_index.device)


def modularity(graph: Graph, labels: Tensor) -> float:
    """The share of edges within communities beyond that of a random graph with the same degrees."""
    _undirected(graph, "modularity")
    labels = _labels(graph, labels)
    weights = graph.weights().double()
    source, target = graph.edge_index
    total = weights.sum()
    if not total > 0:
        raise DataError("a graph without edges has no modularity")
    loops = weights * (source == target)  # listed once, they count at both ends
    within = (weights * (labels[source] == labels[target])).sum() + loops.sum()
    degrees = graph.degrees().double().index_add(0, target, loops)
    of_labels = degrees.new_zeros(int(labels.max()) + 1).index_add(0, labels, degrees)
    total = total + loops.sum()
    return float(within / total - (of_labels / total).square().sum())


def ratio_cut(graph: Graph, labels: Tensor) -> float:
    """The weight of the edges between clusters, each cluster's over its number of nodes, added up and halved."""
    _undirected(graph, "a ratio cut")
    labels = _labels(graph, labels)
    source, target = graph.edge_index
    cut = graph.weights().double() * (labels[source] != labels[target])
    of_labels = cut.new_zeros(int(labels.max()) + 1).index_add(0, labels[source], cut)
    sizes = labels.bincount(minlength=len(of_labels))
    return 0.5 * float((of_labels / sizes.clamp_min(1)).sum())


def page_rank(graph: Graph, damping: float, tolerance: float = 1e-12, most: int = 1000) -> Tensor:
    """How often a random walk along the edges, which now and then begins anew anywhere, comes to each node."""
    weights = graph.weights().double()
    if not graph.nodes:
        return weights
    if not bool((weights >= 0).all()):
        raise DataError("a random walk needs weights of edges of 0 or more; some are negative or not a number")
    source, _ = graph.edge_index
    leaving = weights.new_zeros(graph.nodes).index_add(0, source, weights)
    share = torch.where(leaving > 0, leaving, 1.0).reciprocal()
    walk = graph.operator("adjacency", weight=weights * share[source])
    stuck = leaving == 0
    rank = weights.new_full((graph.nodes,), 1 / graph.nodes)
    for _ in range(most):
        before = rank
        rank = damping * (walk @ rank + rank[stuck].sum() / graph.nodes) + (1 - damping) / graph.nodes
        if float((rank - before).abs().sum()) < tolerance:
            break
    return rank


def _undirected(graph: Graph, what: str) -> None:
    matrix = graph.operator("adjacency", torch.float64)
    if matrix.T is not matrix:
        raise DataError(f"{what} are of undirected graphs; list every edge in both directions")


def _labels(graph: Graph, labels: Tensor) -> Tensor:
    labels = tensor(labels, f"labels are a tensor of a whole number for each of {graph.nodes} nodes")
    if labels.shape != (graph.nodes,) or labels.is_floating_point() or bool((labels < 0).any()):
        raise DataError(
            f"labels are a whole number from 0 on for each of {graph.nodes} nodes, got {tuple(labels.shape)} "
            f"of {labels.dtype}"
        )
    return labels.long()
