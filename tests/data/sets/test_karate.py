"""The karate club is networkx's."""

import networkx
import torch

from deepcanon.data import load_data


def test_edges_are_networkxs_in_both_directions() -> None:
    graph = load_data("karate").train.graph
    assert sorted(map(tuple, graph.edge_index.T.tolist())) == sorted(networkx.karate_club_graph().to_directed().edges)
    assert graph.nodes == 34
    assert graph.weight is None


def test_clubs_are_networkxs() -> None:
    data = load_data("karate")
    clubs = networkx.get_node_attributes(networkx.karate_club_graph(), "club")
    assert [data.labels[label] for label in data.train.y] == [clubs[node] for node in range(34)]


def test_every_member_is_known_by_a_feature_of_its_own() -> None:
    assert torch.equal(load_data("karate").train.x, torch.eye(34))


def test_masks_part_the_members_and_the_leaders_train() -> None:
    data = load_data("karate")
    masks = torch.stack([data.split(name).mask for name in ("train", "valid", "test")])
    assert torch.equal(masks.sum(0), torch.ones(34, dtype=torch.long))
    assert masks.sum(1).tolist() == [4, 10, 20]
    assert data.train.mask[0]
    assert data.train.mask[33]
    for part in (data.split(name) for name in ("train", "valid", "test")):
        assert len(part.y[part.mask].bincount()) == 2
        assert part.y[part.mask].bincount().diff().abs() <= 1
