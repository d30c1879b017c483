from __future__ import annotations

import torch

from tests.diagnosis.checks.plain import causes, net, sgd


def examples(rare: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    y = torch.cat([torch.zeros(1000), torch.ones(rare)]).long()
    return torch.randn(len(y), 10, generator=draw) + 1.2 * y.unsqueeze(1), y


def test_a_class_that_is_lost_is_named_if_balancing_finds_it() -> None:
    model = net(2)
    assert causes("class_imbalance", model, examples(12), optimizer=sgd(model, 0.01), steps=100) == ["class imbalance"]


def test_nine_to_one_is_healthy() -> None:
    assert causes("class_imbalance", net(2), examples(110)) == []
