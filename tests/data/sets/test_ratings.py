"""The planted ratings: all stars occur, nothing held out is known, and tastes are there to be found."""

from __future__ import annotations

import torch

from deepcanon.core import HeldOut, Incomplete
from deepcanon.data import Dataset, load_data
from deepcanon.data.sets.ratings import ITEMS, TASTES, USERS, draw_ratings


def test_ratings_are_whole_stars_and_splits_are_disjoint() -> None:
    data: Dataset[Incomplete] = load_data("ratings")
    valid, test = data.valid, data.test
    assert isinstance(valid, HeldOut)
    assert isinstance(test, HeldOut)
    assert data.train.x.shape == (USERS, ITEMS)
    assert not (valid.asked & test.asked).any()
    total = data.train.weight + valid.metric_weight + test.metric_weight
    assert 0.25 < total / (USERS * ITEMS) < 0.35
    assert abs(test.metric_weight / total - 0.2) < 0.01
    assert abs(valid.metric_weight / total - 0.1) < 0.01
    for part in (valid, test):
        assert torch.equal(part.x.nan_to_num(0), data.train.x.nan_to_num(0))  # only the training ratings are known
    stars = data.train.x[data.train.observed].long().bincount(minlength=6)
    assert stars[0] == 0
    assert (stars[1:] > 0.04 * stars.sum()).all()


def test_the_planted_structure_has_the_rank_of_the_tastes() -> None:
    ratings, given = draw_ratings(1)
    values = torch.from_numpy(ratings)
    centered = values - values.mean(0) - values.mean(1, keepdim=True) + values.mean()
    spectrum = torch.linalg.svdvals(centered)
    assert spectrum[TASTES - 1] > 2 * spectrum[TASTES]
    assert torch.from_numpy(given).double().mean(0).std() > 0.05  # some items are rated more often
