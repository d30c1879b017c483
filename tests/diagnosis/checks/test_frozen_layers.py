from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.diagnosis.checks.plain import adam, causes, net
from tests.diagnosis.checks.planted import causes as causes_of
from tests.diagnosis.checks.planted import report_of


@pytest.mark.slow
def test_too_little_to_train_is_seen_and_a_frozen_first_layer_is_fine() -> None:
    model = net()
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    assert causes("frozen_layers", model, optimizer=optimizer) == []
    narrow = nn.Sequential(nn.Linear(10, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    for layer in (0, 2, 4):
        narrow[layer].weight.requires_grad_(False)
    few = torch.optim.Adam([p for p in narrow.parameters() if p.requires_grad], lr=1e-2)
    assert causes("frozen_layers", narrow, optimizer=few, steps=150) == ["frozen parameters"]


def test_an_optimizer_without_the_layers_that_matter_is_named() -> None:
    model = net(hidden=4)
    biases = torch.optim.Adam([p for p in model.parameters() if p.ndim == 1], lr=1e-2)
    assert causes("frozen_layers", model, optimizer=biases, steps=150) == ["parameters not in the optimizer"]
    assert causes("frozen_layers", model, optimizer=adam(model)) == []


def test_layers_left_out_are_named_although_all_would_need_a_higher_rate() -> None:
    model = net(hidden=4, layers=3)
    last = torch.optim.SGD(model[-1].parameters(), lr=0.01)
    assert causes("frozen_layers", model, optimizer=last, steps=150) == ["parameters not in the optimizer"]
    linear = nn.Linear(10, 3)
    low = torch.optim.SGD([linear.weight], lr=1e-3)  # nothing but the rate is missing
    assert causes("frozen_layers", linear, optimizer=low, steps=150) == []


@pytest.mark.slow
def test_settings_that_freeze_what_must_learn_are_named_and_those_of_a_first_layer_are_fine() -> None:
    found = report_of("frozen_layers", "mlp:hidden=4/4", "digits", steps=300, freeze="*weight*")
    assert causes_of(found) == ["frozen parameters"]
    first = report_of("frozen_layers", "mlp:hidden=64", "moons", steps=150, freeze="net.0.*")
    assert causes_of(first) == []
    assert first.passed["frozen_layers"]["frozen"] == 2
