from __future__ import annotations

import torch
from torch import nn

from tests.diagnosis.checks.plain import adam, causes, net


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
