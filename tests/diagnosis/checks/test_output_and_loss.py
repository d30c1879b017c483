from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.diagnosis.checks.plain import BITS, CLASSES, TARGETS, X, causes, net, sgd


@pytest.mark.parametrize(
    ("end", "loss", "found"),
    [
        (nn.Softmax(1), nn.CrossEntropyLoss(), ["softmax before cross-entropy"]),
        (nn.Sigmoid(), nn.CrossEntropyLoss(), ["sigmoid before cross-entropy"]),
        (nn.LogSoftmax(1), nn.CrossEntropyLoss(), []),
        (nn.Identity(), nn.CrossEntropyLoss(label_smoothing=0.1), []),
        (nn.Identity(), nn.NLLLoss(), ["missing log-softmax"]),
        (nn.Softmax(1), nn.NLLLoss(), ["missing log-softmax"]),
        (nn.LogSoftmax(1), nn.NLLLoss(), []),
        (nn.Identity(), lambda output, y: -functional.cross_entropy(output, y), ["loss with the wrong sign"]),
    ],
)
def test_the_end_of_a_classifier_suits_its_loss(end: nn.Module, loss: Any, found: list[str]) -> None:
    assert causes("output_and_loss", nn.Sequential(net(), end), (X, CLASSES), loss=loss) == found


@pytest.mark.parametrize(
    ("end", "y", "loss", "found"),
    [
        (nn.Sigmoid(), BITS, nn.BCEWithLogitsLoss(), ["sigmoid before cross-entropy with logits"]),
        (nn.Sigmoid(), BITS, nn.BCELoss(), []),
        (nn.ReLU(), TARGETS, nn.MSELoss(), ["output cannot reach targets"]),
        (nn.Sigmoid(), TARGETS, nn.L1Loss(), ["output cannot reach targets"]),
        (nn.Tanh(), 3 * TARGETS, nn.MSELoss(), ["output cannot reach targets"]),
        (nn.Tanh(), TARGETS.tanh(), nn.MSELoss(), []),
        (nn.ReLU(), TARGETS.abs(), nn.MSELoss(), []),
        (nn.Identity(), TARGETS, lambda output, y: -(output - y).square().mean(), ["loss with the wrong sign"]),
    ],
)
def test_the_end_of_a_regression_suits_its_loss(end: nn.Module, y: Any, loss: Any, found: list[str]) -> None:
    assert causes("output_and_loss", nn.Sequential(net(1), end), (X, y), loss=loss) == found


class Scaled(nn.Module):
    """A logistic end that is stretched, by a fixed number or by one that is learned."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.net = net(1)
        self.scale = nn.Parameter(torch.tensor(1.0)) if learned else 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * torch.sigmoid(self.net(x))


def test_an_end_that_no_activation_has_is_measured() -> None:
    assert causes("output_and_loss", Scaled(False), (X, TARGETS), loss=nn.MSELoss()) == ["output cannot reach targets"]
    assert causes("output_and_loss", Scaled(True), (X, TARGETS), loss=nn.MSELoss()) == []
    clamped = nn.Sequential(net(1), nn.Hardtanh(0.0, 0.5))
    assert causes("output_and_loss", clamped, (X, TARGETS), loss=nn.MSELoss()) == ["output cannot reach targets"]


def test_an_optimizer_that_ascends_is_seen() -> None:
    model = net()
    assert causes("output_and_loss", model, optimizer=sgd(model, maximize=True)) == ["loss with the wrong sign"]


def test_log_probabilities_are_not_drawn_to_probabilities() -> None:
    shares = torch.softmax(X[:, :3], 1)
    model = nn.Sequential(net(), nn.LogSoftmax(1))
    assert causes("output_and_loss", model, (X, shares), loss=nn.KLDivLoss(reduction="batchmean")) == []
    rectified = nn.Sequential(net(1), nn.ReLU())
    assert causes("output_and_loss", rectified, (X, TARGETS), loss=lambda o, y: (o - y).abs().mean()) == [
        "output cannot reach targets"
    ]
