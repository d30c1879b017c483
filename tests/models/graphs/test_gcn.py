"""The graph convolutional network is PyG's, its penalty Adam's weight decay, and its accuracy the paper's."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import deepcanon as dc
from deepcanon.core import GraphBatch, UsageError
from deepcanon.data import load_data
from deepcanon.data.sets.planetoid import CORA
from deepcanon.models.graphs.gcn import GCN


def double(batch: GraphBatch) -> GraphBatch:
    return replace(batch, x=batch.x.double())


def test_the_network_is_pygs_on_the_same_weights() -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    batch = double(load_data("karate").train)
    model = GCN(features=34, classes=2, hidden=(16, 8), activation="relu").double().eval()
    theirs = pyg.GCN(34, 16, num_layers=3, out_channels=2).double().eval()
    with torch.no_grad():
        theirs.convs[1], theirs.convs[2] = pyg.GCNConv(16, 8).double(), pyg.GCNConv(8, 2).double()
        for ours, conv in zip(model.convs, theirs.convs, strict=True):
            conv.lin.weight.copy_(ours.get_parameter("weight"))
            conv.bias.copy_(ours.get_parameter("bias").normal_())
    wanted = theirs(batch.x, batch.graph.edge_index)
    torch.testing.assert_close(model(*batch.inputs), wanted, rtol=0, atol=1e-10)


def test_nodes_numbered_otherwise_get_the_same_logits() -> None:
    batch = double(load_data("karate").train)
    model = GCN(features=34, classes=2).double().eval()
    order = torch.randperm(34, generator=torch.Generator().manual_seed(0))
    moved = model(batch.x[order], order.argsort()[batch.graph.edge_index])
    torch.testing.assert_close(moved, model(*batch.inputs)[order], rtol=0, atol=1e-12)


def test_only_nodes_of_the_mask_are_learned_from() -> None:
    model, batch = GCN.example()
    model.eval()
    others = replace(batch, y=torch.where(batch.mask, batch.y, 1 - batch.y))
    assert model.loss(batch)["nll"] == model.loss(others)["nll"]
    logits = model(*batch.inputs)
    wanted = nn.functional.cross_entropy(logits[batch.mask], batch.y[batch.mask])
    torch.testing.assert_close(model.loss(batch)["nll"], wanted)
    right = (logits.argmax(-1) == batch.y)[batch.mask].double().mean()
    assert model.metrics(batch)["accuracy"].item() == pytest.approx(right.item())


def test_the_penalty_is_adams_weight_decay_of_the_first_layer() -> None:
    torch.manual_seed(0)
    model, batch = GCN.example()
    model = GCN(features=3, classes=2, hidden=(8,), dropout=0.0, decay=0.3).double()
    twin = GCN(features=3, classes=2, hidden=(8,), dropout=0.0, decay=0.0).double()
    twin.load_state_dict(model.state_dict())
    batch = double(batch)
    ours = torch.optim.Adam(model.parameters(), lr=0.1)
    first = twin.convs[0].get_parameter("weight")
    rest = [parameter for parameter in twin.parameters() if parameter is not first]
    groups: list[dict[str, Any]] = [{"params": [first], "weight_decay": 0.3}, {"params": rest}]
    theirs = torch.optim.Adam(groups, lr=0.1)
    for _ in range(5):
        for net, optimizer in ((model, ours), (twin, theirs)):
            optimizer.zero_grad()
            sum(net.loss(batch).values(), torch.zeros(())).backward()
            optimizer.step()
    assert "decay" not in twin.loss(batch)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name], rtol=0, atol=1e-10)


def test_without_hidden_layers_it_is_one_convolution() -> None:
    _, batch = GCN.example()
    model = GCN(features=3, classes=2, hidden=()).eval()
    assert len(model.convs) == 1
    assert torch.equal(model.embed(*batch.inputs), batch.x)
    sparse = replace(batch, x=batch.x.to_sparse_coo())
    assert torch.equal(model.embed(*sparse.inputs), batch.x)
    torch.testing.assert_close(model(*sparse.inputs), model(*batch.inputs))


@pytest.mark.slow
def test_it_parts_the_karate_club() -> None:
    right = []
    for seed in range(3):
        torch.manual_seed(seed)
        result = dc.fit(GCN(features=34, classes=2), load_data("karate"), seed=seed, quiet=True)
        right.append(result.test["accuracy"])
    assert min(right) >= 0.9  # 18 of 20 members whose club was not a label


@pytest.mark.slow
@pytest.mark.skipif(not CORA.remote.here(), reason="the Planetoid files are not on this machine; set DEEPCANON_DATA")
def test_ten_seeds_on_cora_reach_the_published_accuracy() -> None:
    data = load_data("cora")
    right = []
    for seed in range(10):
        torch.manual_seed(seed)
        right.append(dc.fit(GCN(features=1433, classes=7), data, seed=seed, quiet=True).test["accuracy"])
    assert sum(right) / 10 >= 0.815  # Kipf and Welling (2017); single seeds vary by half a point


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match=r"dropout is the probability .* \(got 1.0\)"):
        GCN(features=3, classes=2, dropout=1.0)
    with pytest.raises(UsageError, match="decay is the weight decay of the first layer"):
        GCN(features=3, classes=2, decay=-1.0)
    with pytest.raises(UsageError, match="classes must be at least 2"):
        GCN(features=3, classes=1)
    model, batch = GCN.example()
    with pytest.raises(UsageError, match="how must be one of"):
        model.predict(*batch.inputs, how="best")  # type: ignore[arg-type]
