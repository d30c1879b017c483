"""The link predictor is PyG's graph autoencoder, and finds hidden links as well as known communities do."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.metrics import roc_auc_score

import deepcanon as dc
from deepcanon.core import DataError, LabeledPairs, UsageError
from deepcanon.data import load_data
from deepcanon.data.sets.planted_links import COMMUNITIES
from deepcanon.models.graphs.link_predictor import LinkPredictor


def example() -> tuple[LinkPredictor, LabeledPairs]:
    torch.manual_seed(0)
    model, batch = LinkPredictor.example()
    return model.double().eval(), replace(batch, x=batch.x.double())


def test_the_network_is_pygs_graph_autoencoder_on_the_same_weights() -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    model, batch = example()
    encoder = pyg.GCN(3, 8, num_layers=2, out_channels=4).double().eval()
    autoencoder = pyg.GAE(encoder)  # which initializes the weights anew
    convs: Any = model.convs
    with torch.no_grad():
        for ours, theirs in zip(convs, encoder.convs, strict=True):
            theirs.lin.weight.copy_(ours.weight)
            theirs.bias.copy_(ours.bias.normal_())
    z = autoencoder.encode(batch.x, batch.graph.edge_index)
    torch.testing.assert_close(model.embed(batch.x, batch.graph), z, rtol=0, atol=1e-12)
    wanted = autoencoder.decode(z, batch.pairs)  # probabilities; our bias begins at 0
    torch.testing.assert_close(model.predict(*batch.inputs, how="mean")[:, 1], wanted, rtol=0, atol=1e-12)


def test_the_loss_is_the_binary_cross_entropy_and_pairs_have_no_direction() -> None:
    model, batch = example()
    score = (model.embed(batch.x, batch.graph)[batch.pairs[0]] * model.embed(batch.x, batch.graph)[batch.pairs[1]]).sum(
        1
    )
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(score, batch.y.double())
    torch.testing.assert_close(model.loss(batch)["nll"], wanted, rtol=0, atol=1e-12)
    turned = replace(batch, pairs=batch.pairs.flip(0))
    assert torch.equal(model(*turned.inputs), model(*batch.inputs))


def test_nodes_numbered_otherwise_have_the_same_links() -> None:
    model, batch = example()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    number = order.argsort()
    graph = replace(batch.graph, edge_index=number[batch.graph.edge_index])
    moved = model(batch.x[order], graph, number[batch.pairs])
    torch.testing.assert_close(moved, model(*batch.inputs), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_hidden_links_are_found_as_well_as_by_known_communities() -> None:
    data = load_data("planted-links")
    torch.manual_seed(0)
    model = LinkPredictor(features=200)
    dc.fit(model, data, quiet=True, evaluate=False)
    test = data.split("test")
    found = roc_auc_score(test.y, model.eval().predict(*test.inputs, how="mean")[:, 1])
    known = roc_auc_score(test.y, test.pairs[0] % COMMUNITIES == test.pairs[1] % COMMUNITIES)
    assert found > known - 0.02
    assert found > 0.82


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match=r"2 classes \(got classes=3\)"):
        LinkPredictor(features=3, classes=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="dropout is the probability"):
        LinkPredictor(features=3, dropout=1.0)
    with pytest.raises(UsageError, match="latent must be at least 1"):
        LinkPredictor(features=3, latent=0)
    model, batch = example()
    with pytest.raises(DataError, match=r"pairs must have the shape \(2, pairs\), got \(24, 2\)"):
        model(batch.x, batch.graph, batch.pairs.T)
