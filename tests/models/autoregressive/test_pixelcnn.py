"""The PixelCNN: its residual blocks by hand, and a distribution that it learns exactly."""

import math

import pytest
import torch
from torch.nn.functional import conv2d

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.models.autoregressive.pixelcnn import PixelCNN
from deepcanon.train import evaluate, fit


def test_it_is_the_map_of_its_docstring() -> None:
    torch.manual_seed(0)
    model = PixelCNN(1, 6, 5, levels=3, maps=4, layers=1).double()
    state = model.net.state_dict()
    x = torch.randint(0, 3, (2, 1, 6, 5)).double()

    def convolved(h: torch.Tensor, name: str, *, strictly: bool = False) -> torch.Tensor:
        """A convolution with a whole square kernel, of which all after the pixel are zero."""
        weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
        reach = weight.shape[2] - 1
        square = torch.zeros(*weight.shape[:2], 2 * reach + 1, 2 * reach + 1, dtype=torch.float64)
        square[:, :, : reach + 1] = weight
        square[:, :, reach, reach + (not strictly) :] = 0
        return conv2d(h, square, bias, padding=reach)

    h = convolved(2 * x / 2 - 1, "first", strictly=True)
    inside = convolved(h.relu(), "layers.0.down").relu()
    h = h + convolved(convolved(inside, "layers.0.conv").relu(), "layers.0.up")
    wanted = convolved(convolved(h.relu(), "head.hidden").relu(), "head.logits").unsqueeze(2)
    with torch.no_grad():
        torch.testing.assert_close(model.logits(x), wanted, rtol=1e-12, atol=1e-12)


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="layers must be at least 0"):
        PixelCNN(1, 2, 2, levels=2, layers=-1)
    with pytest.raises(UsageError, match="a multiple"):
        PixelCNN(3, 2, 2, levels=2, maps=4)
    with pytest.raises(UsageError, match="levels must be at least 2"):
        PixelCNN(1, 2, 2, levels=1)


@pytest.mark.slow
def test_of_bars_and_stripes_it_learns_the_exact_distribution() -> None:
    """Of 14 patterns, all equally frequent, no model has less than log 14 nats; independent pixels have 6.2."""
    data = load_data("bars-and-stripes:levels")
    torch.manual_seed(0)
    model = PixelCNN(1, 3, 3, levels=2, maps=8, layers=2)
    fit(model, data, quiet=True, seed=0, steps=300, lr=1e-2, evaluate=False)
    nll = evaluate(model, data.train)["nll"]
    assert math.log(14) - 1e-6 < nll < math.log(14) + 0.05
