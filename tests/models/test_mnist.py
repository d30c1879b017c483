"""On MNIST a linear model, a multilayer perceptron and a convolutional network reach what is known of them."""

import os
from typing import Any

import pytest
import torch

import deepcanon as dc


@pytest.mark.slow
@pytest.mark.skipif("DEEPCANON_DATA" not in os.environ, reason="MNIST is read from the folder DEEPCANON_DATA")
@pytest.mark.parametrize(
    ("name", "settings", "accuracy"),
    [
        ("softmax_regression", {}, 0.92),
        ("mlp", {"arguments": {"hidden": (512,)}, "epochs": 10}, 0.98),
        ("cnn", {"epochs": 2, "batch_size": 128}, 0.99),
    ],
)
def test_a_model_reads_mnist_as_well_as_its_kind_is_known_to(
    name: str, settings: dict[str, Any], accuracy: float
) -> None:
    data = dc.load_data("mnist")
    settings = dict(settings)
    sizes = {"channels": 1, "height": 28, "width": 28} if name == "cnn" else {"features": 784}
    torch.manual_seed(0)
    model = dc.find(name)(**sizes, classes=10, **settings.pop("arguments", {}))
    assert dc.fit(model, data, quiet=True, **settings).test["accuracy"] > accuracy
