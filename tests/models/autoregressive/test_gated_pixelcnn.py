"""The gated PixelCNN: its data and errors, and its likelihood against those of NADE and MADE."""

from collections.abc import Callable

import pytest
import torch

from deepcanon.core import Batch, Blueprint, DataError, Model, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.data.suits import default_data, mismatch
from deepcanon.models.autoregressive.gated_pixelcnn import GatedPixelCNN
from deepcanon.models.autoregressive.made import MADE
from deepcanon.models.autoregressive.nade import NADE
from deepcanon.train import evaluate, fit


def test_by_default_it_gets_digits_in_gray_levels() -> None:
    data = default_data(Blueprint(GatedPixelCNN))
    assert (data.name, data.sizes["levels"]) == ("digits:levels", 17)
    assert set(data.train.x.unique().tolist()) == set(range(17))
    assert mismatch(GatedPixelCNN, load_data("digits:binary")) is None
    assert "say digits:levels" in (mismatch(GatedPixelCNN, load_data("digits")) or "")
    images = from_tensors(torch.zeros(4, 1, 2, 2))
    assert mismatch(Blueprint(GatedPixelCNN, {"levels": 4}), images) is None
    assert mismatch(GatedPixelCNN, images) == "gated_pixelcnn needs levels, which tensors does not have"


def test_what_cannot_be_is_refused() -> None:
    model = GatedPixelCNN(1, 2, 2, levels=4, maps=4, layers=1)
    with pytest.raises(DataError, match="gray levels 0 to 3, but the data go up to 4"):
        model.log_prob(torch.tensor([[0.0, 1, 2, 4]]))
    with pytest.raises(DataError, match="whole numbers from 0 on"):
        model.prepare([Batch(torch.full((2, 1, 2, 2), 0.5))])
    with pytest.raises(DataError, match="images of 1x2x2 values"):
        model.log_prob(torch.zeros(3, 1, 2, 3))
    with pytest.raises(UsageError, match="levels must be at least 2"):
        GatedPixelCNN(1, 2, 2, levels=1)
    with pytest.raises(UsageError, match="not a conditional model"):
        model.log_prob(torch.zeros(1, 1, 2, 2), context=torch.tensor([0]))


@pytest.mark.slow
def test_on_binary_digits_its_likelihood_is_higher_than_that_of_nade_and_made_at_equal_epochs() -> None:
    data = load_data("digits:binary")
    builders: dict[str, Callable[[], Model[Batch]]] = {
        "gated_pixelcnn": lambda: GatedPixelCNN(1, 8, 8, levels=2, maps=24, layers=3),
        "nade": lambda: NADE(64),
        "made": lambda: MADE(64),
    }
    nll = {}
    for name, build in builders.items():
        torch.manual_seed(0)
        model = build()
        lr = 1e-2 if name == "gated_pixelcnn" else 3e-3
        fit(model, data, quiet=True, seed=0, epochs=5, lr=lr, batch_size=64, schedule="linear", evaluate=False)
        nll[name] = float(evaluate(model, data.split("test"))["nll"])
    assert nll["gated_pixelcnn"] < min(nll["nade"], nll["made"]) - 0.5, nll
