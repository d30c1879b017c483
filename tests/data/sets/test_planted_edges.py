"""Planted edges: both directions have the same features, classes are those of the camps, and splits are apart."""

from itertools import combinations

import torch

from deepcanon.data import load_data
from deepcanon.data.sets.planted_edges import FRIENDS, TONE
from deepcanon.models.graphs.edge_classifier import edges_between


def test_splits_are_apart_and_an_edge_has_the_same_features_both_ways() -> None:
    data = load_data("planted-edges")
    parts = [data.split(name) for name in ("train", "valid", "test")]
    pairs = [{(a, b) for a, b in part.pairs.T.tolist()} for part in parts]
    assert [len(each) for each in pairs] == [900, 150, 450]
    assert all(a < b for each in pairs for a, b in each)
    for one, other in combinations(pairs, 2):
        assert not one & other
    graph, both = parts[0].graph, torch.cat([part.pairs for part in parts], 1)
    features = graph.edge_features
    assert torch.equal(features[edges_between(graph, both)], features[edges_between(graph, both.flip(0))])
    assert graph.edge_index.shape[1] == 2 * both.shape[1]


def test_friends_are_of_one_camp_and_their_edges_say_so_a_little() -> None:
    data = load_data("planted-edges")
    y = data.train.y
    assert abs(float(y.double().mean()) - FRIENDS) < 0.06
    tone = data.train.graph.edge_features[edges_between(data.train.graph, data.train.pairs), 0]
    for label, mean in ((1, TONE), (0, -TONE)):
        assert abs(float(tone[y == label].mean()) - mean) < 0.15
