"""LeNet-5: its size, its map by hand, images of other sizes, and how well it reads."""

import pytest
import torch
import torch.nn.functional as F

from deepcanon.data import load_data
from deepcanon.models.convolutional.lenet import LeNet
from deepcanon.train import fit


def size(net: LeNet) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def test_it_has_61706_parameters() -> None:
    assert size(LeNet(channels=1, height=32, width=32, classes=10)) == 61_706
    assert size(LeNet(channels=1, height=8, width=8, classes=10)) == 61_706
    layers = [
        sum(p.numel() for p in layer.parameters())
        for layer in LeNet(1, 28, 28, 10).modules()
        if not [*layer.children()]
    ]
    assert [count for count in layers if count] == [156, 2416, 48_120, 10_164, 850]


@pytest.mark.parametrize("side", [28, 32])
def test_it_is_the_map_of_its_docstring(side: int) -> None:
    torch.manual_seed(0)
    net = LeNet(channels=2, height=side, width=side, classes=3).double()
    state = net.state_dict()
    x = torch.randn(5, 2, side, side, dtype=torch.float64)
    h = F.conv2d(x, state["features.0.weight"], state["features.0.bias"], padding=(32 - side) // 2).tanh()
    h = h.unflatten(2, (14, 2)).unflatten(4, (14, 2)).mean((3, 5))
    h = F.conv2d(h, state["features.3.weight"], state["features.3.bias"]).tanh()
    h = h.unflatten(2, (5, 2)).unflatten(4, (5, 2)).mean((3, 5)).flatten(1)
    for layer in (0, 2, 4):
        h = h @ state[f"classifier.{layer}.weight"].T + state[f"classifier.{layer}.bias"]
        h = h.tanh() if layer < 4 else h
    with torch.no_grad():
        torch.testing.assert_close(net(x), h, rtol=1e-12, atol=1e-12)


def test_images_of_other_sizes_are_resized_and_framed() -> None:
    net = LeNet(channels=1, height=14, width=56, classes=3)
    flat = net.framed(torch.full((2, 1, 14, 56), 0.5))
    assert flat.shape == (2, 1, 32, 32)
    assert torch.equal(flat[:, :, 2:-2, 2:-2], torch.full((2, 1, 28, 28), 0.5))
    assert flat.sum() == 0.5 * 2 * 28 * 28  # and the border is zero
    torch.testing.assert_close(net(torch.ones(3, 14 * 56)), net(torch.ones(3, 1, 14, 56)))


@pytest.mark.slow
def test_it_reads_97_percent_of_real_digits() -> None:
    torch.manual_seed(0)
    net = LeNet(channels=1, height=8, width=8, classes=10)
    result = fit(net, load_data("digits"), quiet=True, keep_weights="last", epochs=12)
    assert result.test["accuracy"] >= 0.97
