from __future__ import annotations

import torch
from torch import nn

from tests.diagnosis.checks.plain import adam, causes, net, sgd


def examples(rare: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    y = torch.cat([torch.zeros(1000), torch.ones(rare)]).long()
    return torch.randn(len(y), 10, generator=draw) + 1.2 * y.unsqueeze(1), y


def test_a_class_that_is_lost_is_named_if_balancing_finds_it() -> None:
    model = net(2)
    assert causes("class_imbalance", model, examples(12), optimizer=sgd(model, 0.01), steps=100) == ["class imbalance"]


def test_nine_to_one_is_healthy() -> None:
    assert causes("class_imbalance", net(2), examples(110)) == []


def test_rare_ones_among_zeros_are_lost_by_a_logit_as_by_a_probability() -> None:
    draw = torch.Generator().manual_seed(0)
    y = (torch.arange(1200) % 80 == 0).float().unsqueeze(1)
    x = torch.randn(1200, 10, generator=draw) + 2 * y
    for loss, end in ((nn.BCEWithLogitsLoss(), nn.Identity()), (nn.BCELoss(), nn.Sigmoid())):
        model = nn.Sequential(net(1), end)
        assert causes("class_imbalance", model, (x, y), loss=loss, optimizer=adam(model, 1e-3)) == ["class imbalance"]
