from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import one_hot

from deepcanon.data import load_data
from deepcanon.diagnosis.families.node_spread import telling_features
from tests.diagnosis.checks.planted import causes, report_of


def test_two_layers_leave_nodes_distinct() -> None:
    report = report_of("distinct_nodes", "gcn:hidden=16", "block-model")
    assert causes(report) == []
    assert report.passed["distinct_nodes"]["apart"] > 0.1


@pytest.mark.slow
def test_many_layers_smooth_them() -> None:
    model = "gcn:dropout=0,hidden=" + "/".join(["16"] * 20)
    assert causes(report_of("distinct_nodes", model, "block-model")) == ["over-smoothing"]


def test_features_that_are_the_classes_are_named() -> None:
    data = load_data("block-model")
    x = data.train.x.to_dense().clone()
    x[:, :4] = 3 * one_hot(data.train.y, 4).float()
    told = replace(data, **{name: replace(data.split(name), x=x) for name in ("train", "valid", "test")})
    assert causes(report_of("distinct_nodes", "gcn:hidden=16", told)) == ["label leakage in graph"]
    x[0, :4] = 0  # a feature that is nearly the class tells much, and not all
    assert telling_features(replace(data.train, x=x)) is None


def test_nodes_in_two_splits_are_named() -> None:
    data = load_data("block-model")
    mask = data.train.mask.clone()
    mask[torch.nonzero(data.split("test").mask)[0]] = True
    shared = replace(data, train=replace(data.train, mask=mask))
    assert causes(report_of("distinct_nodes", "gcn:hidden=16", shared)) == ["label leakage in graph"]


def test_classes_at_random_are_named() -> None:
    data = load_data("block-model")
    y = data.train.y[torch.randperm(len(data.train.y), generator=torch.Generator().manual_seed(0))]
    drawn = replace(data, **{name: replace(data.split(name), y=y) for name in ("train", "valid", "test")})
    assert causes(report_of("distinct_nodes", "gcn:hidden=16", drawn)) == ["shuffled labels"]
