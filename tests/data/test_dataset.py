"""A data set holds out validation data by seed, is known again by its fingerprint, and says which splits it has."""

import pytest
import torch

from deepcanon.core import Batch, Graph, GraphBatch, Labeled, UsageError
from deepcanon.data import Batches, Dataset


def numbered(count: int) -> Dataset[Labeled]:
    return Dataset("numbers", "table", Labeled(torch.arange(float(count)).unsqueeze(1), torch.arange(count)))


def test_a_validation_split_is_taken_from_the_training_data_without_loss() -> None:
    data = numbered(50)
    split = data.with_validation_split(seed=3)
    assert split.valid is not None
    assert len(split.valid) == 5
    assert sorted(torch.cat([split.train.y, split.valid.y]).tolist()) == list(range(50))
    assert torch.equal(split.train.x.squeeze(1).long(), split.train.y)


def test_carving_follows_the_seed_and_happens_once() -> None:
    data = numbered(50)
    again, other = data.with_validation_split(seed=3), data.with_validation_split(seed=4)
    assert data.with_validation_split(seed=3).fingerprint() == again.fingerprint() != other.fingerprint()
    assert again.with_validation_split(seed=4) is again


def test_one_example_is_never_split() -> None:
    data = numbered(1)
    assert data.with_validation_split(seed=0) is data


def test_a_missing_split_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="numbers has no 'test' split; it has train, valid"):
        numbered(50).with_validation_split(seed=0).split("test")
    with pytest.raises(UsageError, match="has no 'name' split"):
        numbered(50).split("name")


def test_fingerprint_sees_values_types_and_labels() -> None:
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1])
    base = Dataset("a", "table", Labeled(x, y)).fingerprint()
    assert Dataset("b", "table", Labeled(x.clone(), y.clone())).fingerprint() == base
    others = [
        Labeled(x.nextafter(x + 1), y),
        Labeled(x, 1 - y),
        Labeled(x.double(), y),
        Labeled(x.T.reshape(2, 1, 1), y),
    ]
    assert base not in {Dataset("a", "table", other).fingerprint() for other in others}


def test_fingerprint_of_a_graph_sees_edges_and_weights() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [Graph(edges, 2), Graph(edges.flip(0), 2), Graph(edges, 2, torch.ones(2)), Graph(edges, 2, torch.zeros(2))]
    x, y, mask = torch.eye(2), torch.tensor([0, 1]), torch.tensor([True, False])
    prints = [Dataset("g", "graph", GraphBatch(x=x, y=y, mask=mask, graph=graph)).fingerprint() for graph in graphs]
    assert len(set(prints)) == 4


def test_batches_follow_each_other_and_lose_nothing() -> None:
    whole = Batch(torch.randn(10, 3, generator=torch.Generator().manual_seed(0)))
    parts = list(Batches(whole, 4))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert torch.equal(torch.cat([part.x for part in parts]), whole.x)


def test_moving_a_data_set_moves_every_split() -> None:
    data = numbered(20).with_validation_split(seed=0).to("meta")
    assert data.valid is not None
    assert data.train.x.is_meta
    assert data.valid.y.is_meta
    assert data.test is None
