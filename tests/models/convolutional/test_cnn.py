"""The convolutional network: its map by hand, its size, how well it reads, and how well it measures."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from deepcanon.core import UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.data.sets.spots import LARGEST, SMALLEST, draw_spots, noise
from deepcanon.models.convolutional.cnn import CNN
from deepcanon.train import fit


def test_it_is_the_map_of_its_docstring() -> None:
    torch.manual_seed(0)
    net = CNN(channels=2, height=9, width=8, classes=3, hidden=(4, 6)).double()
    state = net.state_dict()
    for name in state:
        if "running_var" in name:
            state[name].uniform_(0.5, 2)
        elif "running_mean" in name:
            state[name].normal_()
    x = torch.randn(5, 2, 9, 8, dtype=torch.float64)
    h = x
    for stage, padding in ((0, 2), (1, 1)):
        h = F.max_pool2d(F.conv2d(h, state[f"stages.{stage}.0.weight"], padding=padding), 2)
        statistics = (state[f"stages.{stage}.2.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        h = F.batch_norm(h, *statistics).relu()
    wanted = h.flatten(1) @ state["linear.weight"].T + state["linear.bias"]
    with torch.no_grad():
        torch.testing.assert_close(net.eval()(x), wanted, rtol=1e-12, atol=1e-12)


def test_its_size_follows_from_its_stages() -> None:
    net = CNN(channels=1, height=28, width=28, classes=10, hidden=(8, 32, 64))
    wanted = 25 * 8 + 9 * 8 * 32 + 9 * 32 * 64 + 2 * (8 + 32 + 64) + (64 * 3 * 3 + 1) * 10
    assert sum(parameter.numel() for parameter in net.parameters()) == wanted


@pytest.mark.parametrize(
    ("height", "width", "positions"),
    [(1, 1, 1), (8, 8, 1), (3, 28, 3), (32, 32, 16), (90, 224, 4 * 4), (250, 40, 4 * 3)],
)
def test_images_of_any_size_end_in_at_most_sixteen_positions(height: int, width: int, positions: int) -> None:
    net = CNN(channels=3, height=height, width=width, classes=4).eval()
    assert net.linear.in_features == 64 * positions
    assert net(torch.randn(2, 3, height, width)).shape == (2, 4)


def test_dropout_is_for_training_only() -> None:
    torch.manual_seed(0)
    net, x = CNN(1, 8, 8, 3, dropout=0.5), torch.randn(16, 1, 8, 8)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="at least one stage"):
        CNN(1, 8, 8, 3, hidden=())
    with pytest.raises(UsageError, match="hidden must be at least 1"):
        CNN(1, 8, 8, 3, hidden=(8, 0))
    with pytest.raises(UsageError, match="dropout is the probability"):
        CNN(1, 8, 8, 3, dropout=1.0)


@pytest.mark.slow
def test_it_locates_spots_of_light_and_predicts_their_uncertainty() -> None:
    """The centers of new spots, and the noise of the training labels of spots of that size."""
    torch.manual_seed(0)
    data = load_data("spots")
    net = CNN(1, 16, 16, targets=2, head="heteroscedastic")
    fit(net, from_tensors(data.train.x, data.train.y), quiet=True, epochs=6, evaluate=False)
    random = np.random.default_rng(0)
    center, size = random.uniform(-0.7, 0.7, (500, 2)), random.uniform(SMALLEST, LARGEST, 500)
    x = torch.from_numpy(draw_spots(center, size))
    missed = net.eval().predict(x, how="mean").numpy() - center
    assert np.sqrt(np.square(missed).mean()) < 0.06  # the labels have errors of 0.14; a pixel is 0.125
    assert net.output_head is not None
    with torch.no_grad():
        found = net.output_head.distribution(net(x)).stddev.numpy()
    ratio = found / noise(size)[:, None]
    assert 0.8 < np.median(ratio) < 1.25
    assert np.corrcoef(np.log(found).mean(1), np.log(noise(size)))[0, 1] > 0.85


@pytest.mark.slow
def test_it_reads_98_percent_of_real_digits() -> None:
    torch.manual_seed(0)
    result = fit(CNN(channels=1, height=8, width=8, classes=10), load_data("digits"), quiet=True, keep_weights="last")
    assert result.test["accuracy"] >= 0.98
