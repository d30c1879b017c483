from __future__ import annotations

import pytest
import torch

from deepcanon.core import Labeled
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.diagnosis.families.taught import teaching
from deepcanon.methods import Distillation
from tests.diagnosis.checks.planted import causes, report_of


def test_a_teacher_that_learns_first_is_heard() -> None:
    assert causes(report_of("taught_student", "distillation:model=mlp,teacher=mlp", "digits")) == []


@pytest.mark.slow
def test_a_teacher_that_was_never_taught_is_named() -> None:
    model = "distillation:model=mlp,teacher=mlp,teaching=0"
    assert causes(report_of("taught_student", model, "digits")) == ["distillation without signal"]


def test_the_information_of_certain_answers_is_their_entropy() -> None:
    model = Distillation(ToyClassifier(features=2, classes=2), ToyClassifier(features=2, classes=2), teaching=0.0)

    class Certain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([1e4 * x[:, 0], -1e4 * x[:, 0]], 1)

    model.teacher = Certain()  # type: ignore[assignment]
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).repeat(8, 1)
    found = teaching(model, Labeled(x, torch.tensor([0, 1]).repeat(8)))
    assert found["information"] == pytest.approx(torch.tensor(2.0).log().item())
    assert found["accuracy"] == 1
