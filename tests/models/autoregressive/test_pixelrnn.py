"""The PixelRNN: a distribution that it learns exactly, by both recurrences."""

import math
from typing import Any

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.models.autoregressive.pixelrnn import PixelRNN
from deepcanon.train import evaluate, fit


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="direction must be one of diagonal, row"):
        PixelRNN(1, 2, 2, levels=2, direction="column")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="layers must be at least 1"):
        PixelRNN(1, 2, 2, levels=2, layers=0)
    with pytest.raises(UsageError, match="a multiple"):
        PixelRNN(3, 2, 2, levels=2, maps=4)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["row", "diagonal"])
def test_of_bars_and_stripes_it_learns_the_exact_distribution(direction: Any) -> None:
    """Of 14 patterns, all equally frequent, no model has less than log 14 nats; independent pixels have 6.2."""
    data = load_data("bars-and-stripes:levels")
    torch.manual_seed(0)
    model = PixelRNN(1, 3, 3, levels=2, direction=direction, maps=8, layers=1)
    fit(model, data, quiet=True, seed=0, steps=300, lr=1e-2, evaluate=False)
    nll = evaluate(model, data.train)["nll"]
    assert math.log(14) - 1e-6 < nll < math.log(14) + 0.05
