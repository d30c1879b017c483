"""Receptive fields: published sizes, the closed form, and the support of gradients."""

from __future__ import annotations

import itertools
from collections import OrderedDict

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.insights.receptive_field import effective, receptive_field, theoretical
from deepcanon.models.convolutional.densenet import DenseNet
from deepcanon.models.convolutional.resnet import ResNet
from deepcanon.nn.convolution import Causal


def linear_chain(*layers: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*layers).double()


def support(slope: Tensor) -> list[tuple[int, int]]:
    """The smallest box that holds all that is not zero."""
    pixels = slope.nonzero()
    return list(zip(pixels.amin(0).tolist(), pixels.amax(0).tolist(), strict=True))


def vgg16() -> nn.Sequential:
    layers: list[nn.Module] = []
    for count in (2, 2, 3, 3, 3):
        for _ in range(count):
            layers += [nn.Conv2d(1, 1, 3, padding=1), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


def alexnet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 1, 11, 4), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(1, 1, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(3, 2), nn.Conv2d(1, 1, 3, padding=1), nn.Conv2d(1, 1, 3, padding=1),
        nn.Conv2d(1, 1, 3, padding=1), nn.MaxPool2d(3, 2),
    )  # fmt: skip


@pytest.mark.parametrize(("network", "size", "step"), [(vgg16(), 212, 32), (alexnet(), 195, 32)], ids=["vgg", "alex"])
def test_published_sizes_of_chains(network: nn.Sequential, size: int, step: int) -> None:
    *_, field = theoretical(network, (torch.zeros(1, 1, 227, 227),)).values()
    assert (field.size, field.step, field.exact) == ((size, size), (step, step), True)


@pytest.mark.parametrize(("layers", "size"), [(18, 435), (34, 899), (50, 427)])
def test_published_sizes_of_residual_networks(layers: int, size: int) -> None:
    network = ResNet(1, 33, 33, 2, layers=layers, stem="large", base=1)
    fields = theoretical(network, (torch.zeros(1, 1, 33, 33),))
    assert (fields["layer4"].size, fields["layer4"].exact) == ((size, size), True)
    assert fields["fc"].size == (size + 32, size + 32)  # the mean of two positions, 32 pixels apart


def test_the_closed_form_of_random_chains() -> None:
    for kernel, stride, dilation in itertools.product((2, 3), (1, 2), (1, 3)):
        chain = nn.Sequential(
            nn.Conv1d(1, 1, 3, padding=1), nn.Conv1d(1, 1, kernel, stride, dilation=dilation), nn.ReLU(),
            nn.Conv1d(1, 1, 2, 2), nn.AvgPool1d(3, 1),
        )  # fmt: skip
        size, jump = 1, 1
        for k, s, d in ((3, 1, 1), (kernel, stride, dilation), (2, 2, 1), (3, 1, 1)):
            size, jump = size + (k - 1) * d * jump, jump * s
        field = theoretical(chain, (torch.zeros(1, 1, 40),))["4"]
        assert (field.size, field.step) == ((size,), (jump,))


def test_dilated_causal_convolutions_double_their_past_with_each_layer() -> None:
    torch.manual_seed(0)
    stack = nn.Sequential(*[Causal(1, 1, kernel=2, dilation=2**i) for i in range(5)])
    field = theoretical(stack, (torch.zeros(1, 1, 50),))["4"]
    assert field.size == (2**5,)
    assert field.at([40]) == ((40 - 31, 40),)
    slope = effective(stack, (torch.zeros(1, 1, 50),), ["4"])["4"]
    assert support(slope) == [(0, 25)]  # its past is cut off by the beginning


@pytest.mark.parametrize(
    "network",
    [
        linear_chain(nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 2, 5, padding=2)),
        linear_chain(nn.Conv2d(2, 3, 3, stride=2), nn.Conv2d(3, 3, 3, dilation=2, padding=1)),
        linear_chain(nn.Conv2d(2, 2, (1, 3)), nn.AvgPool2d(2), nn.Conv2d(2, 2, 3, padding=1)),
        linear_chain(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ZeroPad2d((2, 0, 1, 0)), nn.Conv2d(2, 2, 3)),
    ],
    ids=["same", "strided", "pooled", "padded"],
)
def test_in_a_linear_network_the_effective_field_is_the_theoretical_one(network: nn.Sequential) -> None:
    x = torch.randn(2, 2, 15, 17, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    name = str(len(network) - 1)
    field = theoretical(network, (x,))[name]
    slope = effective(network, (x,), [name])[name]
    middle = [size // 2 for size in network.eval()(x).shape[2:]]
    assert field.exact
    assert support(slope) == list(field.reached(middle))


class Branches(nn.Module):
    """A branch with a large kernel beside one that takes every second pixel, and a gate that sees the whole image."""

    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.wide = nn.Conv2d(1, 2, 5, stride=2, padding=1)
        self.narrow = nn.Conv2d(1, 2, 1)
        self.gated = gated
        self.end = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = torch.cat([self.wide(x), self.narrow(x[..., 1:-1:2, 1:-1:2])], dim=1)
        seen: Tensor = self.end(h * h.mean((-2, -1), keepdim=True) if self.gated else F.relu(h))
        return seen


def test_branches_are_joined_and_a_gate_has_the_whole_field() -> None:
    x = torch.zeros(1, 1, 13, 13)
    fields = theoretical(Branches(gated=False), (x,))
    assert fields["wide"].at([2, 3]) == ((3, 7), (5, 9))
    assert fields["narrow"].at([2, 3]) == ((5, 5), (7, 7))
    assert fields["end"].at([2, 3]) == ((3, 7), (5, 9))
    gated = theoretical(Branches(gated=True), (x,))["end"]
    assert (gated.at([2, 3]), gated.exact) == (((-1, 13), (-1, 13)), True)


def test_what_is_not_known_is_called_an_upper_bound() -> None:
    x = torch.randn(1, 1, 9, 9)
    around = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"))
    field = theoretical(around, (x,))["0"]
    assert not field.exact
    assert field.at([0, 0]) == ((0, 8), (0, 8))
    enlarged = nn.Sequential(nn.ConvTranspose2d(1, 1, 4, stride=2, padding=1), nn.Conv2d(1, 1, 3, padding=1))
    field, slope = theoretical(enlarged, (x,))["1"], effective(enlarged, (x,), ["1"])["1"]
    assert not field.exact
    for (low, high), (first, last) in zip(field.at([9, 9]), support(slope), strict=True):
        assert low <= first <= last <= high <= low + 3


@pytest.mark.parametrize(
    "network",
    [ResNet(1, 16, 16, 2, base=2), DenseNet(1, 16, 16, 2, blocks=(2, 2), growth=2)],
    ids=["resnet", "densenet"],
)
def test_gradients_stay_inside_the_theoretical_field(network: nn.Module) -> None:
    torch.manual_seed(0)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5)  # no branch is switched off
    x = torch.randn(2, 1, 16, 16)
    fields = theoretical(network, (x,))
    maps = [name for name, field in fields.items() if all(field.step) and max(field.size) < 16]
    assert len(maps) > 5
    for name, slope in effective(network, (x,), maps).items():
        unit = [16 // int(step) // 2 for step in fields[name].step]
        for (low, high), (first, last) in zip(fields[name].reached(unit), support(slope), strict=True):
            assert low <= first <= last <= high


def test_equal_weights_give_the_powers_of_a_box() -> None:
    chain = nn.Sequential(*[nn.Conv1d(1, 1, 3, padding=1, bias=False) for _ in range(4)]).double()
    for weight in chain.parameters():
        nn.init.ones_(weight)
    slope = effective(chain, (torch.zeros(1, 1, 21, dtype=torch.float64),), ["3"])["3"]
    wanted = np.ones(1)
    for _ in range(4):
        wanted = np.convolve(wanted, np.ones(3))
    assert slope[10 - 4 : 10 + 5].tolist() == wanted.tolist()


def test_the_finding_holds_the_numbers_and_leaves_the_model_alone() -> None:
    layers = {"first": nn.Conv2d(1, 2, 3, padding=1), "relu": nn.ReLU(inplace=True), "second": nn.Conv2d(2, 2, 3)}
    model = nn.Sequential(OrderedDict(layers))
    model.add_module("drop", nn.Dropout())
    x = torch.randn(5, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    state = torch.get_rng_state()
    found = receptive_field(model, Batch(x))
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(state, torch.get_rng_state())
    first, second = found.numbers["layers"]
    assert (first["layer"], first["size"], first["window"]) == ("first", [3, 3], [[3, 5], [3, 5]])
    assert (second["layer"], second["size"], second["status"]) == ("second", [5, 5], "EXACT")
    assert second["slope_outside"] == 0
    assert second["half_pixels"] <= second["effective_pixels"] <= 25
    assert "is 5x5 pixels (EXACT)" in found.says[0]
    assert receptive_field(model, Batch(x), layer="first").numbers["layers"] == [first]


def test_what_has_no_positions_is_refused() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(9, 2))
    with pytest.raises(UsageError, match="no convolution"):
        receptive_field(model, Batch(torch.zeros(2, 1, 3, 3)))
    with pytest.raises(UsageError, match="is not a feature map"):
        receptive_field(model, Batch(torch.zeros(2, 1, 3, 3)), layer="1")
    with pytest.raises(UsageError, match="there are 0, 1"):
        receptive_field(model, Batch(torch.zeros(2, 1, 3, 3)), layer="2")
    with pytest.raises(DataError, match="is for images"):
        receptive_field(model, Batch(torch.zeros(2, 9)))
    with pytest.raises(DataError, match="inputs with positions"):
        theoretical(model, (torch.zeros(2, 9),))
