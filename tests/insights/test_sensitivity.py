"""Sensitivity: the weights of a linear model, finite differences of a network, and nothing left changed."""

import pytest
import torch
from torch import nn

from deepcanon.core import Batch, DataError, Labeled, UsageError
from deepcanon.insights.sensitivity import input_slopes, sensitivity
from deepcanon.models.convolutional.cnn import CNN


def test_of_a_linear_model_they_are_its_weights_at_every_example() -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(5, 3).double(), torch.randn(7, 5, dtype=torch.float64)
    for target, weight in enumerate(layer.weight.detach()):
        found = sensitivity(layer, Batch(x), target=target)
        torch.testing.assert_close(input_slopes(layer, Batch(x), target), weight.expand(7, 5))
        assert found.numbers["mean_gradient"] == pytest.approx(weight.tolist(), rel=1e-12)
        assert found.numbers["by_feature"] == pytest.approx(weight.abs().tolist(), rel=1e-12)
        assert found.numbers["by_example"] == pytest.approx([float(weight.norm())] * 7, rel=1e-12)
        assert found.numbers["spread_over_examples"] < 1e-12
    place = int(weight.abs().argmax())
    assert f"most sensitive to feature {place + 1} " in found.says[0]


def test_of_a_network_they_are_differences_of_its_largest_output() -> None:
    torch.manual_seed(0)
    model = CNN(channels=1, height=6, width=6, classes=3).double()
    x = torch.randn(4, 1, 6, 6, dtype=torch.float64)
    batch = Labeled(x, torch.zeros(4).long())
    random = torch.get_rng_state()
    slopes = input_slopes(model, batch)
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in model.parameters())
    model.eval()
    step = 1e-6 * torch.randn(x.shape, dtype=torch.float64)
    with torch.no_grad():
        chosen = model(x).argmax(1, keepdim=True)
        change = (model(x + step).gather(1, chosen) - model(x - step).gather(1, chosen)).squeeze(1) / 2
    torch.testing.assert_close((slopes * step).flatten(1).sum(1), change, rtol=1e-5, atol=1e-12)
    found = sensitivity(model, batch)
    assert found.numbers["shape"] == [1, 6, 6]
    assert "pixel (" in found.says[0]


def test_what_has_no_gradient_is_refused() -> None:
    with pytest.raises(DataError, match="gradients are taken by real numbers"):
        sensitivity(nn.Embedding(3, 2), Batch(torch.arange(3)))
    with pytest.raises(UsageError, match="the target is an output from 0 to 1, got 2"):
        sensitivity(nn.Linear(3, 2), Batch(torch.zeros(2, 3)), target=2)
    with pytest.raises(UsageError, match=r"that of Conv2d is \(2, 1, 3, 3\)"):
        sensitivity(nn.Conv2d(1, 1, 1), Batch(torch.zeros(2, 1, 3, 3)))
