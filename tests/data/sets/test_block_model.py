"""The block model has the edges that its probabilities say, and its blocks can be recovered."""

import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from deepcanon.data import load_data
from deepcanon.data.sets.block_model import BETWEEN, BLOCKS, INSIDE, SIZE


def test_edges_have_the_probabilities_of_their_blocks() -> None:
    batch = load_data("block-model").train
    source, target = batch.graph.edge_index
    same = batch.y[source] == batch.y[target]
    assert int(same.sum()) / (BLOCKS * SIZE * (SIZE - 1)) == pytest.approx(INSIDE, rel=0.1)
    assert int((~same).sum()) / (BLOCKS * SIZE * (BLOCKS - 1) * SIZE) == pytest.approx(BETWEEN, rel=0.1)
    both = {(a, b) for a, b in batch.graph.edge_index.T.tolist()}
    assert both == {(b, a) for a, b in both}
    assert batch.y.bincount().tolist() == [SIZE] * BLOCKS


def test_its_blocks_are_found_from_the_edges_alone() -> None:
    data = load_data("block-model")
    labels = data.train.graph.spectral_clustering(BLOCKS)
    assert adjusted_rand_score(data.train.y, labels) > 0.9
    masks = torch.stack([data.split(name).mask for name in ("train", "valid", "test")])
    assert masks.sum(1).tolist() == [40, 60, 300]
    assert masks.sum(0).max() == 1
