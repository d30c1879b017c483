"""Spectral convolution: PyG's Chebyshev layer, exact filters by eigenvectors, and circular filters on a ring."""

import math
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev as numpys
from torch import Tensor

from deepcanon.core import DataError, Graph, Sparse, UsageError
from deepcanon.core.chebyshev import chebyshev, chebyshev_coefficients, chebyshev_sum
from deepcanon.nn import SpectralConv


def karate() -> Graph:
    edges = torch.tensor(list(networkx.karate_club_graph().to_directed().edges)).T
    return Graph(edges, 34)


def signal(nodes: int, width: int) -> Tensor:
    return torch.randn(nodes, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_the_layer_is_pygs_on_the_same_weights(order: int) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    graph, x = karate(), signal(34, 3)
    layer = SpectralConv(3, 4, order=order).double()
    theirs = pyg.ChebConv(3, 4, K=order + 1, normalization="sym").double()
    with torch.no_grad():
        for linear, weight in zip(theirs.lins, layer.weight, strict=True):
            linear.weight.copy_(weight)
        theirs.bias.copy_(layer.bias.normal_())
    torch.testing.assert_close(layer(x, graph), theirs(x, graph.edge_index), rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", [0, 1, 3, 8])
def test_products_and_eigenvectors_give_the_same(order: int) -> None:
    graph, x = karate(), signal(34, 3)
    torch.manual_seed(0)
    local, exact = (SpectralConv(3, 4, order=order, frequencies=k).double() for k in (None, 34))
    exact.load_state_dict(local.state_dict())
    torch.testing.assert_close(exact(x, graph), local(x, graph), rtol=0, atol=1e-10)


def test_a_polynomial_of_the_order_of_the_distinct_eigenvalues_is_any_filter() -> None:
    """A ring of 8 nodes has 5 frequencies: an interpolation of order 4 is exact, one of order 3 is not."""
    around = torch.arange(8)
    half = torch.stack([around, around.roll(1)])
    graph, x = Graph(torch.cat([half, half.flip(0)], 1), 8), signal(8, 1)
    spectrum = graph.spectrum(operator="symmetric_laplacian")
    distinct = spectrum.values[[0, 1, 3, 5, 7]].numpy()
    wanted = spectrum.filter(lambda frequency: (-3 * frequency).exp(), x)
    gaps = []
    for order in (3, 4, 6):  # beyond 4 the coefficients are 0
        fitted = numpys.chebfit(distinct - 1, np.exp(-3 * distinct), min(order, 4))
        terms = torch.from_numpy(np.append(fitted, [0.0] * (order - 4))).reshape(-1, 1, 1) * x
        found = chebyshev_sum(graph.operator("symmetric_laplacian", torch.float64), terms)
        gaps.append(float((found - wanted).abs().max()))
    assert gaps[0] > 1e-3
    assert max(gaps[1:]) < 1e-12


@pytest.mark.parametrize("nodes", [9, 10])
def test_on_a_ring_it_is_a_circular_convolution(nodes: int) -> None:
    """The eigenvalues of a ring's symmetric Laplacian are 1 - cos(2 pi k / n), those of its Laplacian halved."""
    around = torch.arange(nodes)
    half = torch.stack([around, around.roll(1)])
    graph, x = Graph(torch.cat([half, half.flip(0)], 1), nodes), signal(nodes, 1)
    layer = SpectralConv(1, 1, order=3).double()
    frequency = 1 - (2 * math.pi * torch.arange(nodes, dtype=torch.float64) / nodes).cos()
    response = (layer.weight.flatten(1) * chebyshev(frequency, 3)).sum(0).detach()
    wanted = torch.fft.ifft(torch.fft.fft(x[:, 0]) * response).real
    torch.testing.assert_close(layer(x, graph)[:, 0].detach(), wanted, rtol=0, atol=1e-12)


def test_polynomials_and_coefficients_are_numpys() -> None:
    values = torch.linspace(0, 2, 7, dtype=torch.float64)
    for order in (0, 1, 6):
        np.testing.assert_allclose(chebyshev(values, order).T, numpys.chebvander(values.numpy() - 1, order), atol=1e-12)
        ours = chebyshev_coefficients(lambda frequency: (-2 * frequency).exp(), order)
        theirs = numpys.chebinterpolate(lambda x: np.exp(-2 * (x + 1)), order)
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_interpolated_coefficients_filter_nearly_as_eigenvectors_do() -> None:
    graph, x = karate(), signal(34, 2)
    coefficients = chebyshev_coefficients(lambda frequency: (-2 * frequency).exp(), 12)
    found = chebyshev_sum(graph.operator("symmetric_laplacian", torch.float64), coefficients.reshape(-1, 1, 1) * x)
    wanted = graph.spectrum(operator="symmetric_laplacian").filter(lambda frequency: (-2 * frequency).exp(), x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


def test_a_filter_of_order_k_reaches_k_edges_far_and_eigenvectors_everywhere() -> None:
    path = networkx.path_graph(12).to_directed()
    graph = Graph(torch.tensor(list(path.edges)).T, 12)
    x = torch.zeros(12, 1, dtype=torch.float64).index_fill(0, torch.tensor([0]), 1.0)
    for order in (1, 3):
        moved = SpectralConv(1, 1, order=order).double()(x, graph)[:, 0].abs() > 1e-12
        assert moved.nonzero().flatten().tolist() == list(range(order + 1))
    low = SpectralConv(1, 1, order=3, frequencies=4).double()(x, graph)[:, 0].abs() > 1e-12
    assert low.sum() > 4


def test_features_may_be_sparse_and_frequencies_more_than_there_are() -> None:
    graph, x = karate(), signal(34, 3)
    layer = SpectralConv(3, 2, order=2, frequencies=100).double()
    torch.testing.assert_close(layer(Sparse.of(x), graph), layer(x, graph))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="order must be at least 0"):
        SpectralConv(3, 2, order=-1)
    with pytest.raises(UsageError, match="frequencies must be at least 1"):
        SpectralConv(3, 2, frequencies=0)
    with pytest.raises(DataError, match="takes 3 features per node, got 4"):
        SpectralConv(3, 2)(torch.zeros(34, 4), karate())
