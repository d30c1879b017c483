"""The spectrum of a graph against closed forms and networkx; filters on a ring are circular convolutions."""

import math
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from torch import Tensor

from deepcanon.core import DataError, Graph, Spectrum, UsageError, graph_spectrum


def ring(nodes: int) -> Graph:
    around = torch.arange(nodes)
    half = torch.stack([around, around.roll(1)])
    return Graph(torch.cat([half, half.flip(0)], 1), nodes)


def ring_frequencies(nodes: int) -> Tensor:
    """The eigenvalues of a ring in the order of the discrete Fourier transform."""
    return 2 - 2 * (2 * math.pi * torch.arange(nodes, dtype=torch.float64) / nodes).cos()


def of_networkx(source: Any) -> Graph:
    edges = torch.tensor([(a, b) for a, b in source.to_directed().edges]).T
    return Graph(edges, source.number_of_nodes())


def check_eigenpairs(graph: Graph, found: Spectrum, operator: Any = "laplacian") -> None:
    matrix = graph.operator(operator, torch.float64)
    torch.testing.assert_close(matrix @ found.vectors, found.vectors * found.values, rtol=0, atol=1e-10)
    gram = found.vectors.T @ found.vectors
    torch.testing.assert_close(gram, torch.eye(len(gram), dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("nodes", "k"), [(7, 7), (30, 5), (1000, 21)])
def test_the_spectrum_of_a_ring_is_two_minus_two_cosines(nodes: int, k: int) -> None:
    found = ring(nodes).spectrum(k)
    wanted = ring_frequencies(nodes).sort().values[:k]
    torch.testing.assert_close(found.values, wanted, rtol=0, atol=1e-10)
    check_eigenpairs(ring(nodes), found)


def test_the_spectrum_of_a_path_has_the_closed_form() -> None:
    path = of_networkx(networkx.path_graph(600))
    found = path.spectrum(10)
    wanted = 2 - 2 * (math.pi * torch.arange(10, dtype=torch.float64) / 600).cos()
    torch.testing.assert_close(found.values, wanted, rtol=0, atol=1e-12)
    check_eigenpairs(path, found)


@pytest.mark.parametrize("operator", ["laplacian", "symmetric_laplacian"])
def test_it_is_networkxs_by_either_solver(operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = networkx.gnp_random_graph(60, 0.1, seed=3)
    theirs = networkx.laplacian_spectrum if operator == "laplacian" else networkx.normalized_laplacian_spectrum
    wanted = np.sort(theirs(source))[:9]
    dense = of_networkx(source).spectrum(9, operator)
    monkeypatch.setattr(graph_spectrum, "DENSE", 0)
    sparse = of_networkx(source).spectrum(9, operator)
    np.testing.assert_allclose(dense.values, wanted, atol=1e-10)
    np.testing.assert_allclose(sparse.values, wanted, atol=1e-10)
    apart = dense.values.diff() > 1e-3  # where eigenvalues are simple, so are the vectors, signs included
    simple = torch.cat([torch.tensor([True]), apart]) & torch.cat([apart, torch.tensor([False])])
    assert simple.sum() >= 5
    torch.testing.assert_close(sparse.vectors[:, simple], dense.vectors[:, simple], rtol=0, atol=1e-8)


def test_every_component_has_an_eigenvalue_zero() -> None:
    union = Graph.union([ring(100)] * 7)
    found = union.spectrum(21)
    assert (found.values < 1e-10).sum() == 7
    torch.testing.assert_close(found.values[7:], ring_frequencies(100)[1].expand(14), rtol=0, atol=1e-10)
    check_eigenpairs(union, found)


def test_the_fiedler_vector_parts_the_karate_club() -> None:
    source = networkx.karate_club_graph()
    club = torch.tensor([source.nodes[node]["club"] == "Officer" for node in range(34)])
    found = of_networkx(networkx.Graph(source.edges)).spectrum(2)
    assert found.values[1] == pytest.approx(0.468525, abs=1e-6)
    agree = int(((found.vectors[:, 1] > 0) == club).sum())
    assert max(agree, 34 - agree) == 32


def test_signs_do_not_depend_on_the_solver_or_the_call() -> None:
    vectors = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    torch.testing.assert_close(graph_spectrum._signed(-vectors), graph_spectrum._signed(vectors))
    assert graph_spectrum._signed(vectors).amax(0).tolist() == [0.8, 0.8]
    even = torch.tensor([[-0.5], [0.5 + 1e-12], [0.5], [-0.5]], dtype=torch.float64)  # the first of the largest
    assert graph_spectrum._signed(even)[0] > 0


def test_the_transform_keeps_the_energy_and_comes_back() -> None:
    found = of_networkx(networkx.karate_club_graph()).spectrum()
    x = torch.randn(34, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    coefficients = found.transform(x)
    torch.testing.assert_close(coefficients.square().sum(0), x.square().sum(0))  # Parseval
    torch.testing.assert_close(found.inverse(coefficients), x)
    torch.testing.assert_close(found.transform(x.float()), coefficients.float())
    with pytest.raises(DataError, match=r"a signal on 34 nodes has as many rows, got the shape \(33,\)"):
        found.transform(x[1:, 0])
    with pytest.raises(DataError, match="34 frequencies need as many coefficients"):
        found.inverse(coefficients[:3])


@pytest.mark.parametrize("nodes", [8, 9])
def test_a_filter_on_a_ring_is_a_circular_convolution(nodes: int) -> None:
    """Q g(L) Q' has the symmetric kernel whose discrete Fourier transform is g(2 - 2 cos(2 pi k / n))."""
    x = torch.randn(nodes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for response in (torch.exp, lambda values: (-0.7 * values).exp(), lambda values: 1 / (1 + values)):
        filtered = ring(nodes).spectrum().filter(response, x)
        wanted = torch.fft.ifft(torch.fft.fft(x) * response(ring_frequencies(nodes))).real
        torch.testing.assert_close(filtered, wanted, rtol=0, atol=1e-12)


def test_a_low_pass_projects_on_the_lowest_frequencies() -> None:
    few, all_ = ring(12).spectrum(3), ring(12).spectrum()
    x = torch.randn(12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    passed = few.filter(torch.ones_like, x)
    torch.testing.assert_close(passed, all_.filter(lambda values: (values < 0.3).double(), x))
    assert passed.norm() < x.norm()


def test_it_is_found_once_and_converted() -> None:
    graph = ring(9)
    assert graph.spectrum(3) is graph.spectrum(3)
    assert graph.spectrum(3) is not graph.spectrum(3, "symmetric_laplacian")
    assert graph.spectrum(3).to(torch.float32).vectors.dtype == torch.float32
    assert graph.to("meta").spectrum(3).vectors.shape == (9, 3)


def test_wrong_spectra_are_refused() -> None:
    with pytest.raises(DataError, match="directed graph is not symmetric; list every edge in both directions"):
        Graph(torch.tensor([[0], [1]]), 2).spectrum()
    with pytest.raises(UsageError, match="of laplacian or symmetric_laplacian, got 'gcn'"):
        ring(4).spectrum(2, "gcn")  # type: ignore[arg-type]
    for k in (0, 5):
        with pytest.raises(UsageError, match=f"has 1 to 4 eigenvalues, got k={k}"):
            ring(4).spectrum(k)
