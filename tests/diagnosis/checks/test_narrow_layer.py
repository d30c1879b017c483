from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.diagnosis.checks.plain import CLASSES, TARGETS, X, adam, causes


def narrow(outputs: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 1), nn.Tanh(), nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, outputs))


@pytest.mark.slow
def test_a_single_unit_between_wide_layers_is_named_where_it_holds_the_training_back() -> None:
    assert causes("narrow_layer", narrow(3), (X, CLASSES), steps=150) == ["bottleneck/underfitting"]


def test_a_single_unit_that_suffices_is_fine() -> None:
    assert causes("narrow_layer", narrow(1), (X, TARGETS), loss=nn.MSELoss(), steps=150) == []


@pytest.mark.slow
def test_a_single_unit_between_few_features_and_classes_is_named_although_they_are_few() -> None:
    random = torch.Generator().manual_seed(0)
    rings = torch.randint(3, (900,), generator=random)
    angle, radius = 6.3 * torch.rand(900, generator=random), 0.5 + 0.7 * rings
    x = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 3))
    found = causes("narrow_layer", model, (x, rings), optimizer=adam(model, 0.03), steps=300)
    assert found == ["bottleneck/underfitting"]
