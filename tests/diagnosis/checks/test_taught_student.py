from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from deepcanon.core import Labeled
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.diagnosis.families.taught import teaching
from deepcanon.methods import Distillation
from tests.diagnosis.checks.plain import adam, net
from tests.diagnosis.checks.plain import causes as plain_causes
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


class Student(nn.Module):
    """A student, with its teacher where it is to hold it."""

    def __init__(self, teacher: nn.Module | None) -> None:
        super().__init__()
        self.student, self.teacher = net(), teacher

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.student(x)
        return out


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("follows", [False, True])
def test_a_teacher_of_a_step_is_found_wherever_it_is_unless_it_follows_its_student(follows: bool, inside: bool) -> None:
    elsewhere = net().requires_grad_(False)

    def step(model: Student, optimizer: torch.optim.Optimizer, batch: Any) -> Tensor:
        teacher = model.teacher or elsewhere
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = teacher(batch[0]).softmax(1)
        loss = functional.cross_entropy(model(batch[0]), wanted)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), model.student.parameters(), strict=True):
                old.lerp_(new, 0.01 if follows else 0.0)
        return loss

    torch.manual_seed(1)
    model = Student(elsewhere if inside else None)
    for weight in model.student.parameters():
        nn.init.normal_(weight, std=0.1)
    found = plain_causes("taught_student", model, loss=None, step=step, optimizer=adam(model.student))
    assert found == ([] if follows else ["distillation without signal"])
