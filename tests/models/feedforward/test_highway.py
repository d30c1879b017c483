"""The highway network: its parameter count, its limits, and depths at which a plain net does not learn."""

import pytest
import torch
from torch import nn

from deepcanon.core import Labeled, UsageError
from deepcanon.data import load_data
from deepcanon.models._predictor import Predictor
from deepcanon.models.feedforward.highway import Highway
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.nn.connections import HighwayGate
from deepcanon.train import fit

DEPTH, UNITS = 50, 32


def test_the_number_of_parameters_is_that_of_the_formula() -> None:
    features, units, layers, classes = 7, 5, 4, 3
    model = Highway(features=features, classes=classes, units=units, layers=layers)
    formula = (features + 1) * units + 2 * layers * (units + 1) * units + (units + 1) * classes
    assert sum(parameter.numel() for parameter in model.parameters()) == formula


def test_with_all_gates_shut_it_is_linear_and_with_all_open_a_plain_net() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 4, dtype=torch.float64)
    shut = Highway(features=4, targets=2, units=5, layers=3, gate_bias=-1e3).double()
    torch.testing.assert_close(shut(x), shut.exit(shut.entrance(x)))
    open_ = Highway(features=4, targets=2, units=5, layers=3, gate_bias=1e3).double()
    plain = [gate.inner for gate in open_.layers if isinstance(gate, HighwayGate)]
    torch.testing.assert_close(open_(x), open_.exit(nn.Sequential(open_.entrance, *plain)(x)))


def accuracy_after(model: Predictor, batch: Labeled, steps: int) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        model.loss(batch)["nll"].backward()
        optimizer.step()
    return model.metrics(batch)["accuracy"].item()


@pytest.mark.slow
def test_fifty_layers_learn_where_a_plain_net_of_fifty_layers_does_not() -> None:
    train = load_data("digits").train
    batch = Labeled(train.x[:200], train.y[:200])
    torch.manual_seed(0)
    gated = Highway(features=64, classes=10, units=UNITS, layers=DEPTH, gate_bias=-4.0)
    plain = MLP(features=64, classes=10, hidden=(UNITS,) * DEPTH)
    assert accuracy_after(gated, batch, steps=40) > 0.9
    assert accuracy_after(plain, batch, steps=40) < 0.2  # a tenth is guessing


@pytest.mark.slow
def test_it_reads_96_percent_of_real_digits() -> None:
    torch.manual_seed(0)
    result = fit(Highway(features=64, classes=10), load_data("digits"), quiet=True)
    assert result.test["accuracy"] >= 0.96


def test_a_net_needs_classes_or_targets() -> None:
    with pytest.raises(UsageError, match="Highway needs either classes or targets"):
        Highway(features=2)
