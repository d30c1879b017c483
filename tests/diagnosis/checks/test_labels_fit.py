from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.diagnosis.checks.plain import CLASSES, TARGETS, X, causes, net


@pytest.mark.slow
def test_labels_in_another_order_are_seen() -> None:
    order = torch.randperm(600, generator=torch.Generator().manual_seed(1))
    assert causes("labels_fit", net(), (X, CLASSES)) == []
    assert causes("labels_fit", net(), (X, CLASSES[order])) == ["shuffled labels"]
    assert causes("labels_fit", net(1), (X, TARGETS[order]), loss=nn.MSELoss()) == ["shuffled labels"]


def test_noisy_labels_and_labels_without_a_linear_trend_fit() -> None:
    noisy = torch.where(torch.rand(600, generator=torch.Generator().manual_seed(2)) < 0.5, CLASSES, 0)
    assert causes("labels_fit", net(), (X, noisy)) == []
    plane = X[:, :2]
    wide = torch.cat([plane, 0.1 * X[:, 2:]], 1)
    assert causes("labels_fit", net(2), (wide, (plane.prod(1) > 0).long())) == []


@pytest.mark.slow
def test_of_sequences_of_tokens_labels_in_another_order_are_seen_and_sound_ones_of_any_kind_pass() -> None:
    random = torch.Generator().manual_seed(3)
    tokens = torch.randint(12, (900, 8), generator=random)
    counted = (tokens == 3).sum(1).clamp(max=2)
    ordered = (tokens[:, 0] > tokens[:, -1]).long()  # of which counts know nothing
    order = torch.randperm(900, generator=random)
    assert causes("labels_fit", Reader(), (tokens, counted)) == []
    assert causes("labels_fit", Reader(), (tokens, ordered)) == []
    assert causes("labels_fit", Reader(), (tokens, counted[order])) == ["shuffled labels"]


class Reader(nn.Module):
    """Classes of sequences of tokens by their embeddings, place by place."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Embedding(12, 16), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.net(x)
        return found
