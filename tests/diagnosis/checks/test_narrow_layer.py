from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.diagnosis.checks.plain import CLASSES, TARGETS, X, causes


def narrow(outputs: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 1), nn.Tanh(), nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, outputs))


@pytest.mark.slow
def test_a_single_unit_between_wide_layers_is_named_where_it_holds_the_training_back() -> None:
    assert causes("narrow_layer", narrow(3), (X, CLASSES), steps=150) == ["bottleneck/underfitting"]


def test_a_single_unit_that_suffices_is_fine() -> None:
    assert causes("narrow_layer", narrow(1), (X, TARGETS), loss=nn.MSELoss(), steps=150) == []
