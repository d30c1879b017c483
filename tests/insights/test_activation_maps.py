"""Activation maps are the outputs of the layers, and dead channels are counted."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from deepcanon.core import Batch, UsageError
from deepcanon.insights.activation_maps import activation_maps, maps_of
from deepcanon.models.convolutional.resnet import ResNet


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3), nn.Dropout(),
        nn.Flatten(), nn.LazyLinear(2),
    )  # fmt: skip


def test_the_maps_are_what_each_convolution_leaves() -> None:
    model = network()
    x = torch.randn(5, 1, 8, 8)
    maps = maps_of(model, (x,))
    assert list(maps) == ["2", "3"]  # the pooling behind the first, and the second, which nothing follows
    first, second = model[0], model[3]
    assert isinstance(first, nn.Conv2d)
    assert isinstance(second, nn.Conv2d)
    pooled = F.max_pool2d(F.conv2d(x, first.weight, first.bias, padding=1).relu(), 2)
    torch.testing.assert_close(maps["2"], pooled)
    torch.testing.assert_close(maps["3"], F.conv2d(pooled, second.weight, second.bias))


def test_the_finding_counts_what_is_dead_and_shows_the_strongest_channels() -> None:
    model = network()
    x = torch.randn(5, 1, 8, 8)
    model(x)  # the last layer learns its size
    first = model[0]
    assert isinstance(first, nn.Conv2d)
    assert first.bias is not None
    with torch.no_grad():
        first.bias[1] = -100.0
    found = activation_maps(model, Batch(x), example=2, channels=2)
    assert model.training
    layer, last = found.numbers["layers"]
    assert (layer["channels"], layer["size"], layer["dead"]) == (3, [4, 4], 1)
    assert (last["channels"], last["size"], last["dead"], last["zeros"]) == (4, [2, 2], 0, 0.0)
    assert found.says[0] == "1 of 7 channels are zero for all 5 images."
    maps = maps_of(model, (x,))["2"][2]
    assert layer["strongest"] == maps.mean((-2, -1)).argsort(descending=True)[:2].tolist()
    assert layer["maps"][0] == maps[layer["strongest"][0]].tolist()
    assert layer["zeros"] == pytest.approx(float((maps_of(model, (x,))["2"] == 0).float().mean()))


@pytest.mark.slow
def test_a_residual_network_has_a_row_for_some_of_its_many_layers() -> None:
    model, batch = ResNet.example()
    found = activation_maps(model, batch)
    assert len(found.numbers["layers"]) > 6
    assert len({axes.get_ylabel() for axes in found.figure.axes} - {""}) == 6


def test_what_cannot_be_shown_is_refused() -> None:
    model, batch = network(), Batch(torch.zeros(2, 1, 8, 8))
    with pytest.raises(UsageError, match="2 images, numbered from 0"):
        activation_maps(model, batch, example=2)
    with pytest.raises(UsageError, match="channels must be at least 1"):
        activation_maps(model, batch, channels=0)
    with pytest.raises(UsageError, match="no convolution"):
        activation_maps(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), batch)
