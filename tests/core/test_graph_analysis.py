"""What a user asks of a graph, against networkx, scikit-learn, closed forms and planted partitions."""

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph
from torch import Tensor

from deepcanon.core import DataError, Graph, UsageError


def planted(groups: int, size: int, inside: float, between: float, seed: int = 0) -> tuple[Graph, Tensor]:
    source = networkx.planted_partition_graph(groups, size, inside, between, seed=seed)
    return Graph.from_networkx(source), torch.arange(groups).repeat_interleave(size)


def ring(nodes: int) -> Graph:
    return Graph.from_networkx(networkx.cycle_graph(nodes))


def test_a_graph_of_networkx_keeps_names_weights_and_directions() -> None:
    source: Any = networkx.DiGraph()
    source.add_weighted_edges_from([("a", "b", 2.0), ("c", "a", 0.5)])
    graph = Graph.from_networkx(source)
    assert graph.names == ("a", "b", "c")
    assert graph.edge_index.tolist() == [[0, 2], [1, 0]]
    assert graph.weights().tolist() == [2.0, 0.5]
    assert Graph.from_networkx(source, weight=None).weight is None
    undirected = Graph.from_networkx(networkx.karate_club_graph())
    wanted = networkx.to_numpy_array(networkx.karate_club_graph())
    np.testing.assert_array_equal(undirected.operator("adjacency").to_dense(), wanted)
    looped = Graph.from_networkx(networkx.Graph([(0, 0), (0, 1)]))
    assert looped.operator("adjacency").to_dense().tolist() == [[1, 1], [1, 0]]


def test_edges_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("weight,source,target\n2,anna,bert\n0.5,bert,cleo\n")
    graph = Graph.from_edge_csv(path)
    assert graph.names == ("anna", "bert", "cleo")
    assert graph.operator("adjacency").to_dense().tolist() == [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]
    assert Graph.from_edge_csv(str(path), directed=True).edge_index.tolist() == [[0, 1], [1, 2]]
    path.write_text("from,to\na,b\n")
    assert Graph.from_edge_csv(path).weight is None
    path.write_text("\ufeffweight,source, target\n2,a, b\n2,b,a\n3,b,c\n")  # as spreadsheets write it
    listed_twice = Graph.from_edge_csv(path)
    assert listed_twice.names == ("a", "b", "c")
    assert listed_twice.operator("adjacency").to_dense().tolist() == [[0, 2, 0], [2, 0, 3], [0, 3, 0]]
    path.write_text("source,target,weight\nb,c,1\nb,c,2\n")
    with pytest.raises(DataError, match="'b' and 'c' is there already with another weight"):
        Graph.from_edge_csv(path, directed=True)
    for text, problem in (
        ("source\na\n", "needs a row of names and two columns"),
        ("source,target\na,\n", "row 2: an edge needs 2 cells and both its ends"),
        ("source,target,weight\na,b,heavy\n", "row 2: the weight must be a number, got 'heavy'"),
        ("source,target,weight\n\na,b,nan\n", "row 3: the weight must be a number, got 'nan'"),
        ("source,target,weight\na,b,1\nb,a,2\n", "row 3: .*there already with another weight; list it once, or say"),
        ("0,1\n1,2\n", "needs a row of names first"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=problem):
            Graph.from_edge_csv(path)
    with pytest.raises(DataError, match="cannot be read"):
        Graph.from_edge_csv(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="takes a graph of networkx, got list"):
        Graph.from_networkx([(0, 1)])
    with pytest.raises(DataError, match="no edge has the attribute 'length'"):
        Graph.from_networkx(networkx.path_graph(3), weight="length")


def test_nearest_neighbors_are_scikit_learns() -> None:
    points = np.random.default_rng(0).normal(size=(60, 3))
    given = torch.from_numpy(points)
    for mode, weight in (("connectivity", "none"), ("distance", "distance")):
        wanted = kneighbors_graph(points, 7, mode=mode).toarray()
        found = Graph.knn(given, 7, directed=True, weight=weight)  # type: ignore[arg-type]
        np.testing.assert_allclose(found.operator("adjacency", torch.float64).to_dense(), wanted, rtol=1e-6)
    plain = kneighbors_graph(points, 7).toarray()
    found = Graph.knn(given, 7)
    np.testing.assert_array_equal(found.operator("adjacency").to_dense(), (plain + plain.T) / 2)
    gaussian = Graph.knn(given, 7, weight="gaussian")
    matrix = gaussian.operator("adjacency", torch.float64)
    assert matrix.T is matrix
    assert bool((gaussian.weights() > 0).all() & (gaussian.weights() < 1).all())


def test_points_in_one_place_are_not_their_own_neighbors() -> None:
    graph = Graph.knn(torch.zeros(6, 2), 2, directed=True)
    source, target = graph.edge_index
    assert bool((source != target).all())
    assert graph.degrees().tolist() == [2] * 6
    with pytest.raises(UsageError, match="6 points have 1 to 5 neighbors each, got k=6"):
        Graph.knn(torch.zeros(6, 2), 6)
    with pytest.raises(DataError, match="rows of finite real numbers"):
        Graph.knn(torch.tensor([[0.0], [float("nan")]]), 1)


def test_points_may_be_an_array_and_what_cannot_be_is_refused() -> None:
    points = np.random.RandomState(0).randn(30, 2)
    given = Graph.knn(torch.from_numpy(points), 3, weight="gaussian")
    assert torch.equal(Graph.knn(points, 3, weight="gaussian").weights(), given.weights())
    assert Graph.knn(torch.zeros(5, 2), 2, weight="gaussian").weights().unique().tolist() == [1.0]
    with pytest.raises(UsageError, match="weight must be one of none, distance, gaussian"):
        Graph.knn(points, 3, weight="Gaussian")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="30 points have 1 to 29 neighbors each, got k=2"):
        Graph.knn(points, 2.5)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="rows of finite real numbers"):
        Graph.knn([[0.0, float("nan")], [1.0, 1.0]], 1)


def test_laplacians_by_name() -> None:
    source = networkx.karate_club_graph()
    graph = Graph.from_networkx(source)
    wanted = networkx.laplacian_matrix(source).toarray()
    np.testing.assert_allclose(graph.laplacian().to_dense(), wanted)
    np.testing.assert_allclose(
        graph.laplacian("symmetric").to_dense(), networkx.normalized_laplacian_matrix(source).toarray(), atol=1e-12
    )
    degrees = wanted.diagonal()
    np.testing.assert_allclose(graph.laplacian("random_walk").to_dense(), wanted / degrees[:, None], atol=1e-12)
    with pytest.raises(UsageError, match="a Laplacian is combinatorial, symmetric, random_walk; got 'normal'"):
        graph.laplacian("normal")  # type: ignore[arg-type]


def signed_columns(matrix: np.ndarray) -> list[tuple[float, ...]]:
    """The columns in order, each with its first number positive: the direction of an undirected edge means nothing."""
    return sorted(tuple(column * np.sign(column[np.flatnonzero(column)[0]])) for column in matrix.T)


def test_the_laplacian_is_the_incidence_matrix_times_its_transpose() -> None:
    source = networkx.karate_club_graph()
    graph = Graph.from_networkx(source)
    incidence, laplacian = graph.incidence().to_dense(), graph.laplacian().to_dense()
    torch.testing.assert_close(incidence @ incidence.T, laplacian, rtol=0, atol=1e-12)
    plain = Graph(graph.edge_index, graph.nodes).incidence().to_dense()
    theirs = networkx.incidence_matrix(networkx.Graph(source.edges), nodelist=range(34), oriented=True).toarray()
    assert signed_columns(plain.numpy()) == signed_columns(theirs)
    x = torch.randn(34, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(graph.variation(x), (incidence.T @ x).square().sum(0))
    torch.testing.assert_close(graph.variation(x[:, 0]), x[:, 0] @ laplacian @ x[:, 0])
    assert laplacian.trace() == 2 * sum(data["weight"] for *_, data in source.edges(data=True))
    with pytest.raises(DataError, match="an incidence matrix is that of an undirected graph"):
        Graph(torch.tensor([[0], [1]]), 2).incidence()
    with pytest.raises(DataError, match="a signal on 34 nodes has as many rows, got 3"):
        graph.variation(torch.zeros(3))


def test_the_fourier_basis_keeps_the_energy() -> None:
    graph = Graph.from_networkx(networkx.karate_club_graph())
    x = torch.randn(34, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for kind in ("combinatorial", "symmetric"):
        coefficients = graph.fourier(kind=kind).transform(x)
        torch.testing.assert_close(coefficients.square().sum(), x.square().sum())
    with pytest.raises(UsageError, match="orthogonal eigenvectors have combinatorial and symmetric"):
        graph.fourier(kind="random_walk")  # type: ignore[arg-type]


@pytest.mark.parametrize("nodes", [60, 900])
@pytest.mark.parametrize("kind", ["combinatorial", "symmetric"])
def test_filters_of_a_ring_are_circulant_by_eigenvectors_and_by_polynomials(nodes: int, kind: Any) -> None:
    x = torch.randn(nodes, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    frequency = 2 - 2 * (2 * torch.pi * torch.arange(nodes, dtype=torch.float64) / nodes).cos()
    frequency = frequency if kind == "combinatorial" else frequency / 2
    found = ring(nodes).filter(lambda values: (-2 * values).exp(), x, kind=kind)
    wanted = torch.fft.ifft(torch.fft.fft(x, dim=0) * (-2 * frequency).exp().unsqueeze(1), dim=0).real
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("nodes", [30, 500])
def test_signals_of_any_shape_and_type_are_filtered(nodes: int) -> None:
    graph, x = ring(nodes), torch.arange(6 * nodes).view(nodes, 3, 2)
    smooth = graph.filter(lambda frequency: (-frequency).exp(), x)
    assert smooth.shape == x.shape
    assert smooth.dtype == torch.float32
    alone = graph.filter(lambda frequency: (-frequency).exp(), x[:, 1, 1].double())
    torch.testing.assert_close(smooth[:, 1, 1].double(), alone, rtol=1e-5, atol=1e-3)
    half: Any = 0.5
    torch.testing.assert_close(graph.filter(lambda frequency: half, alone), 0.5 * alone)
    with pytest.raises(UsageError, match="a number for each of"):
        graph.filter(lambda frequency: torch.ones(2), alone)
    with pytest.raises(UsageError, match="order of a polynomial of frequencies must be a whole number, 1 or more"):
        graph.filter(torch.exp, alone, order=0)
    with pytest.raises(UsageError, match="orthogonal eigenvectors have combinatorial and symmetric"):
        graph.filter(torch.exp, alone, kind="random_walk")  # type: ignore[arg-type]


def test_filters_refuse_what_they_cannot_do() -> None:
    with pytest.raises(DataError, match="a signal on 5 nodes has as many rows, got 4"):
        ring(5).filter(torch.exp, torch.zeros(4))
    big = Graph(torch.tensor([[0], [1]]), 900)
    with pytest.raises(DataError, match="list every edge in both directions"):
        big.filter(torch.exp, torch.zeros(900))
    assert torch.equal(Graph(torch.empty(2, 0).long(), 900).filter(torch.exp, torch.ones(900)), torch.ones(900))


def test_the_fiedler_vector_is_networkxs() -> None:
    source = networkx.karate_club_graph()
    value, vector = Graph.from_networkx(source).fiedler()
    assert value == pytest.approx(networkx.algebraic_connectivity(source, tol=1e-10, seed=0), abs=1e-6)
    theirs = networkx.fiedler_vector(source, tol=1e-12, seed=0)
    assert abs(float(vector @ torch.from_numpy(theirs))) / np.linalg.norm(theirs) == pytest.approx(1, abs=1e-6)
    with pytest.raises(DataError, match="this has 4 nodes in 2 components"):
        Graph(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), 4).fiedler()


def test_components_are_networkxs_and_ignore_directions() -> None:
    source = networkx.gnp_random_graph(60, 0.02, seed=1)
    found = Graph.from_networkx(source).components()
    for nodes in networkx.connected_components(source):
        assert len(found[sorted(nodes)].unique()) == 1
    assert int(found.max()) + 1 == networkx.number_connected_components(source)
    assert Graph(torch.tensor([[0], [1]]), 3).components().tolist() == [0, 0, 1]


@pytest.mark.parametrize("nodes", [40, 200])  # 160 nodes are solved densely, 800 by Lanczos
def test_spectral_clustering_recovers_planted_partitions_as_scikit_learn_does(nodes: int) -> None:
    graph, truth = planted(4, nodes, 16 / nodes, 2 / nodes)
    labels = graph.spectral_clustering(4)
    matrix = graph.operator("adjacency", torch.float64).to_dense().numpy()
    theirs = SpectralClustering(4, affinity="precomputed", random_state=0, assign_labels="kmeans").fit(matrix).labels_
    assert adjusted_rand_score(theirs, labels) > 0.9
    assert adjusted_rand_score(truth, labels) > 0.8
    assert torch.equal(graph.spectral_clustering(4), labels)


def test_spectral_clustering_of_points_is_scikit_learns() -> None:
    points, truth = make_blobs(200, centers=3, random_state=3, cluster_std=0.8)
    labels = Graph.knn(torch.from_numpy(points), 10).spectral_clustering(3)
    assert adjusted_rand_score(truth, labels) == 1
    two = Graph.union([ring(12), ring(30)])
    assert adjusted_rand_score(two.components(), two.spectral_clustering(2)) == 1  # of components it finds these


def test_communities_and_modularity_are_networkxs() -> None:
    graph, truth = planted(4, 30, 0.5, 0.02)
    found = graph.communities()
    assert adjusted_rand_score(truth, found) == 1
    source = networkx.karate_club_graph()
    club = Graph.from_networkx(source)
    for labels in (club.communities(seed=3), torch.arange(34) % 5):
        groups = [set((labels == group).nonzero().flatten().tolist()) for group in labels.unique()]
        assert club.modularity(labels) == pytest.approx(networkx.community.modularity(source, groups), abs=1e-12)
    looped: Any = networkx.Graph([(0, 0), (0, 1), (1, 2), (2, 0), (2, 3)])
    wanted = networkx.community.modularity(looped, [{0, 1}, {2, 3}])
    found_value = Graph.from_networkx(looped).modularity(torch.tensor([0, 0, 1, 1]))
    assert found_value == pytest.approx(wanted, abs=1e-12)
    assert int(found[0]) == 0


def test_edges_between_two_nodes_add_up_in_communities() -> None:
    """Two pairs of nodes with three edges each, joined by an edge that weighs more than one of the three."""
    twice = torch.tensor([[0, 1], [0, 1], [0, 1], [2, 3], [2, 3], [2, 3], [1, 2]]).T
    graph = Graph(torch.cat([twice, twice.flip(0)], 1), 4, torch.tensor([1.0, 1, 1, 1, 1, 1, 1.5]).repeat(2))
    assert graph.communities().tolist() == [0, 0, 1, 1]


def test_the_ratio_cut_of_a_ring_cut_in_two() -> None:
    labels = (torch.arange(10) >= 5).long()
    assert ring(10).ratio_cut(labels) == pytest.approx(0.5 * (2 / 5 + 2 / 5))
    with pytest.raises(DataError, match="labels are a whole number from 0 on for each of 10 nodes"):
        ring(10).ratio_cut(torch.zeros(3).long())
    with pytest.raises(DataError, match="a ratio cut are of undirected graphs"):
        Graph(torch.tensor([[0], [1]]), 2).ratio_cut(torch.tensor([0, 1]))


@pytest.mark.parametrize("directed", [False, True])
def test_influence_is_networkxs_pagerank(directed: bool) -> None:
    source = networkx.gnp_random_graph(50, 0.06, seed=2, directed=directed)  # some nodes have no way out
    random = np.random.default_rng(0)
    networkx.set_edge_attributes(source, {edge: float(random.uniform(0.5, 2)) for edge in source.edges}, "weight")
    theirs = networkx.pagerank(source, alpha=0.85, tol=1e-13, max_iter=1000)
    found = Graph.from_networkx(source).influence()
    np.testing.assert_allclose(found, [theirs[node] for node in range(50)], atol=1e-7)
    assert float(found.sum()) == pytest.approx(1)
    with pytest.raises(UsageError, match="damping is the probability to walk on"):
        ring(4).influence(1.0)


def test_a_random_walk_needs_nodes_and_weights_of_zero_or_more() -> None:
    assert Graph(torch.empty(2, 0).long(), 0).influence().shape == (0,)
    with pytest.raises(DataError, match="weights of edges of 0 or more"):
        Graph(torch.tensor([[0], [1]]), 2, torch.tensor([-1.0])).influence()


def test_positions_are_eigenvectors_of_each_component() -> None:
    path, star = networkx.path_graph(7), networkx.star_graph(5)
    parts = [Graph.from_networkx(path), Graph.from_networkx(star), Graph(torch.empty(2, 0).long(), 1)]
    union = Graph.union(parts)
    found = union.positions(3)
    torch.testing.assert_close(found, torch.cat([part.positions(3) for part in parts]), rtol=0, atol=1e-12)
    assert found[-1].tolist() == [0, 0, 0]
    spectrum = parts[0].spectrum(4, "symmetric_laplacian")
    torch.testing.assert_close(found[:7], spectrum.vectors[:, 1:] * 7**0.5, rtol=0, atol=1e-10)
    assert union.positions(3) is found
    large = ring(700)
    moved = large.laplacian("symmetric") @ large.positions(2)
    torch.testing.assert_close(moved, (1 - np.cos(2 * np.pi / 700)) * large.positions(2), rtol=0, atol=1e-9)
    short = Graph(torch.tensor([[0], [1]]), 2).positions(3)  # one direction will do
    torch.testing.assert_close(short[:, 0].abs(), torch.ones(2, dtype=torch.float64))
    assert not short[:, 1:].any()


def test_groups_hold_every_node_once_and_are_at_most_half_padding() -> None:
    union = Graph.union([ring(nodes) for nodes in (3, 4, 5, 9, 17)] + [Graph(torch.empty(2, 0).long(), 2)])
    seen = torch.cat([group[group >= 0] for group in union.groups])
    assert seen.sort().values.tolist() == list(range(40))
    for group in union.groups:
        assert int((group >= 0).sum()) * 2 > group.numel()
        for row in group:
            assert len(union.components()[row[row >= 0]].unique()) == 1


def test_names_must_fit() -> None:
    with pytest.raises(DataError, match="3 nodes need as many names, got 1"):
        Graph(torch.empty(2, 0).long(), 3, names=("a",))
