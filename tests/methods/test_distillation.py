"""The distilled term is that of the paper, with its limits, and a student learns more with a teacher than alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy

import deepcanon as dc
from deepcanon.core import Labeled, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.distillation import Distillation
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.linear.softmax_regression import SoftmaxRegression
from deepcanon.models.variational.vae import VAE


def pair(**arguments: Any) -> tuple[Distillation, Labeled]:
    torch.manual_seed(0)
    student, teacher = (SoftmaxRegression(features=3, classes=4).double() for _ in range(2))
    for parameter in (*student.parameters(), *teacher.parameters()):
        torch.nn.init.normal_(parameter)
    x = torch.randn(10, 3, dtype=torch.float64)
    return Distillation(student, teacher, **{"teaching": 0.0, **arguments}), Labeled(x, torch.arange(10) % 4)


def logits_of(model: torch.nn.Module, x: torch.Tensor) -> np.ndarray:
    logits: np.ndarray = model(x).detach().numpy()
    return logits


def test_the_loss_is_the_formula() -> None:
    method, batch = pair(weight=0.6, temperature=2.5)
    terms = method.loss(batch)
    q, p = (softmax(logits_of(model, batch.x) / 2.5, axis=1) for model in (method.teacher, method.model))
    assert terms["distilled"].item() == pytest.approx(0.6 * 2.5**2 * entropy(q, p, axis=1).mean(), rel=1e-12)
    own = method.model.loss(batch)["nll"].item()
    assert terms["nll"].item() == pytest.approx(0.4 * own, rel=1e-12)


def test_at_high_temperature_logits_are_matched() -> None:
    """The gradient in the logits tends to the difference of the centered logits over their number, a mean over rows."""
    method, batch = pair(weight=1.0, temperature=1e4)
    seen: list[torch.Tensor] = []
    method.model.register_forward_hook(lambda _, inputs, output: seen.append(output))
    term = method.loss(batch)["distilled"]
    (gradient,) = torch.autograd.grad(term, seen[-1])
    z, v = (logits_of(model, batch.x) for model in (method.model, method.teacher))
    wanted = ((z - z.mean(1, keepdims=True)) - (v - v.mean(1, keepdims=True))) / 4 / len(z)
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=2e-3, atol=1e-5)


def test_a_certain_teacher_at_temperature_one_gives_the_labels() -> None:
    method, batch = pair(weight=1.0, temperature=1.0)
    weight, bias = method.teacher.parameters()
    with torch.no_grad():
        weight.mul_(1e3), bias.mul_(1e3)
    labels = method.teacher(batch.x).argmax(-1)
    wanted = torch.nn.functional.cross_entropy(method.model(batch.x), labels)
    assert method.loss(batch)["distilled"].item() == pytest.approx(wanted.item(), rel=1e-9)


def test_the_teacher_learns_first_and_then_stays_as_it_is() -> None:
    method = Distillation(MLP(features=2, classes=2, hidden=(4,)), MLP(features=2, classes=2, hidden=(32,)))
    first, second = method.turns()
    assert (first.share, second.share) == ((0.0, 0.5), (0.5, 1.0))
    ours, theirs = ({id(p) for p in model.parameters()} for model in (method.model, method.teacher))
    assert {id(p) for p in first.parameters} == theirs  # type: ignore[attr-defined]
    assert {id(p) for p in second.parameters} == ours  # type: ignore[attr-defined]
    trained = Distillation(MLP(features=2, classes=2), MLP(features=2, classes=2), teaching=0.0)
    assert len(trained.turns()) == 1
    assert not any(parameter.requires_grad for parameter in trained.teacher.parameters())


@pytest.mark.slow
def test_a_student_learns_more_of_few_examples_from_a_teacher_than_alone() -> None:
    """The teacher has seen all digits, the student 60 of them: a prediction says more of an image than its label."""
    data = dc.load_data("digits")
    test = data.split("test")
    torch.manual_seed(0)
    teacher = MLP(features=64, classes=10, hidden=(128,))
    dc.fit(teacher, data, epochs=15, quiet=True, evaluate=False)
    gains = []
    for seed in range(3):
        rows = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(seed))[:60]
        few = dc.data.of(data.train.x[rows], data.train.y[rows], test=(test.x, test.y))
        accuracy = []
        for weight in (0.0, 0.9):
            torch.manual_seed(seed)
            method = Distillation(MLP(features=64, classes=10, hidden=(16,)), teacher, weight=weight, teaching=0.0)
            accuracy.append(dc.fit(method, few, steps=600, lr=3e-3, seed=seed, quiet=True).test["accuracy"])
        gains.append(accuracy[1] - accuracy[0])
    assert np.mean(gains) > 0.01


def test_wrong_arguments_are_refused() -> None:
    student, teacher = ToyClassifier(2, 2), ToyClassifier(2, 2)
    for arguments, words in (
        ({"weight": 1.5}, "weight is from 0 to 1"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"teaching": 1.0}, "teaching is a share of the training"),
    ):
        with pytest.raises(UsageError, match=words):
            Distillation(student, teacher, **arguments)
    with pytest.raises(UsageError, match="vae has no predict"):
        Distillation(student, VAE(features=4))
    other = Distillation(ToyClassifier(2, 2), ToyClassifier(2, 3), teaching=0.0)
    with pytest.raises(UsageError, match=r"the teacher gives logits \(32, 3\), and the student \(32, 2\)"):
        other.loss(ToyClassifier.example()[1])
