"""The spectral network is PyG's ChebNet, the same by eigenvectors, and parts the karate club."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError, GraphBatch, UsageError
from deepcanon.data import load_data
from deepcanon.models.graphs.spectral_network import SpectralNetwork


def karate() -> GraphBatch:
    batch: GraphBatch = load_data("karate").train
    return replace(batch, x=batch.x.double())


def test_the_network_is_pygs_on_the_same_weights() -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    batch = karate()
    torch.manual_seed(0)
    model = SpectralNetwork(features=34, classes=2, hidden=(8, 5), order=3).double().eval()
    h = batch.x
    convs: Any = model.convs
    for number, ours in enumerate(convs):
        theirs = pyg.ChebConv(ours.in_features, ours.weight.shape[1], K=4).double()
        with torch.no_grad():
            theirs.bias.copy_(ours.get_parameter("bias").normal_())
            for linear, weight in zip(theirs.lins, ours.get_parameter("weight"), strict=True):
                linear.weight.copy_(weight)
        h = theirs(h, batch.graph.edge_index)
        h = h if number == 2 else h.relu()
    torch.testing.assert_close(model(*batch.inputs), h, rtol=0, atol=1e-10)


def test_all_frequencies_give_what_products_give_and_few_do_not() -> None:
    batch = karate()
    torch.manual_seed(0)
    local = SpectralNetwork(features=34, classes=2, order=4).double().eval()
    exact, low = (SpectralNetwork(features=34, classes=2, order=4, frequencies=k).double().eval() for k in (34, 5))
    for other in (exact, low):
        other.load_state_dict(local.state_dict())
    torch.testing.assert_close(exact(*batch.inputs), local(*batch.inputs), rtol=0, atol=1e-10)
    assert (low(*batch.inputs) - local(*batch.inputs)).abs().max() > 0.01


def test_logits_by_few_frequencies_are_as_smooth_as_these() -> None:
    """What comes out of a layer of the five lowest frequencies has no part in the others."""
    batch = karate()
    model = SpectralNetwork(features=34, classes=2, hidden=(), frequencies=5).double().eval()
    spectrum = batch.graph.spectrum(operator="symmetric_laplacian")
    with torch.no_grad():
        centered = model(*batch.inputs) - model.convs[0].get_parameter("bias")
    assert spectrum.transform(centered)[5:].abs().max() < 1e-10
    assert spectrum.transform(centered)[:5].abs().max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("frequencies", [None, 5])
def test_it_parts_the_karate_club(frequencies: int | None) -> None:
    right = []
    for seed in range(2):
        torch.manual_seed(seed)
        model = SpectralNetwork(features=34, classes=2, frequencies=frequencies)
        right.append(dc.fit(model, load_data("karate"), seed=seed, quiet=True).test["accuracy"])
    assert sum(right) / 2 >= (0.85 if frequencies is None else 0.9)


def test_sparse_features_and_no_hidden_layer() -> None:
    batch = karate()
    model = SpectralNetwork(features=34, classes=2, hidden=()).double().eval()
    sparse = replace(batch, x=batch.x.to_sparse_coo())
    torch.testing.assert_close(model(*sparse.inputs), model(*batch.inputs))
    assert torch.equal(model.embed(*sparse.inputs), batch.x)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="dropout is the probability"):
        SpectralNetwork(features=3, classes=2, dropout=1.0)
    with pytest.raises(UsageError, match="classes must be at least 2"):
        SpectralNetwork(features=3, classes=1)
    with pytest.raises(DataError, match="list every edge in both directions"):
        SpectralNetwork(features=3, classes=2, frequencies=2)(torch.zeros(2, 3), torch.tensor([[0], [1]]))
