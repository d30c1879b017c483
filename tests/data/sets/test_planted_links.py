"""Hidden links are leak-free: no pair of one split is an edge that is shown, or a pair of another, in any direction."""

from itertools import combinations

import torch
from torch import Tensor

from deepcanon.data import load_data
from deepcanon.data.sets.planted_links import COMMUNITIES, INSIDE


def unordered(pairs: Tensor) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in pairs.T.tolist()}


def test_splits_share_no_pair_and_only_training_links_are_shown() -> None:
    data = load_data("planted-links")
    parts = [data.split(name) for name in ("train", "valid", "test")]
    assert [part.weight for part in parts] == [2000, 200, 600]
    shown = unordered(data.train.graph.edge_index)
    linked = [unordered(part.pairs[:, part.y == 1]) for part in parts]
    apart = [unordered(part.pairs[:, part.y == 0]) for part in parts]
    assert shown == linked[0]
    for part in parts:
        assert torch.equal(part.graph.edge_index, data.train.graph.edge_index)
        assert len(unordered(part.pairs)) == part.weight  # each once
        assert int(part.y.sum()) * 2 == part.weight
    for one, other in combinations([*linked, *apart], 2):
        assert not one & other
    assert all(a != b for pairs in (*linked, *apart) for a, b in pairs)


def test_links_stay_in_their_communities_and_other_pairs_do_not_care() -> None:
    train = load_data("planted-links").train
    same = (train.pairs[0] % COMMUNITIES == train.pairs[1] % COMMUNITIES).double()
    assert abs(float(same[train.y == 1].mean()) - INSIDE) < 0.05
    assert abs(float(same[train.y == 0].mean()) - 1 / COMMUNITIES) < 0.1
