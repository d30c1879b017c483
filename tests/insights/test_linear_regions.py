"""The finding tells what was counted, on the line and on the plane of the data."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from deepcanon.core import Batch, Sequences, UsageError
from deepcanon.insights._engines.regions import regions_on_line, regions_on_plane
from deepcanon.insights.linear_regions import linear_regions


def batch(features: int) -> Batch:
    return Batch(torch.randn(20, features, generator=torch.Generator().manual_seed(0)))


def mlp(features: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(features, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))


def test_one_feature_is_seen_along_its_whole_line() -> None:
    model, data = mlp(1), batch(1)
    found = linear_regions(model, data, margin=0.5)
    low, high = data.x.min().double(), data.x.max().double()
    reach = 0.5 * (high - low)
    line = regions_on_line(model, (low - reach).reshape(1), (high + reach).reshape(1))
    assert found.numbers["line"]["regions"] == line.regions
    assert found.numbers["line"]["joints"] == pytest.approx(line.joints.tolist())
    assert found.numbers["line"]["at_most"] == 30
    assert f"there are {line.regions} linear pieces" in found.says[0]


def test_two_features_are_seen_on_their_plane() -> None:
    model, data = mlp(2), batch(2)
    found = linear_regions(model, data, margin=0.0)
    left, bottom, right, top = found.numbers["plane"]["window"]
    assert (left, top) == pytest.approx((float(data.x[:, 0].min()), float(data.x[:, 1].max())))
    exact = regions_on_plane(model, lambda x: x, (left, right, bottom, top)).regions
    assert found.numbers["plane"]["regions"] == exact > 10
    assert found.numbers["plane"]["at_most"] == 16 * 11
    assert len(found.figure.axes[0].collections[0].get_paths()) == exact


def test_many_features_are_seen_on_the_plane_through_three_examples() -> None:
    model = mlp(6).train()
    x = batch(6).x
    data = Batch(torch.cat([x[:1], x[:1], x[1:]]))  # the same example twice makes no plane
    found = linear_regions(model, data)
    assert model.training
    line = regions_on_line(model, x[0], x[1])
    assert found.numbers["line"]["regions"] == line.regions
    assert found.numbers["plane"]["regions"] >= line.patterns, "the line lies on the plane"


def test_what_makes_no_plane_is_refused() -> None:
    with pytest.raises(UsageError, match="three examples that do not lie on one line"):
        linear_regions(mlp(3), Batch(torch.ones(5, 3)))
    with pytest.raises(UsageError, match="real inputs; these are sequences"):
        linear_regions(mlp(3), Sequences(torch.zeros(2, 3, dtype=torch.long), torch.tensor([3, 3])))
