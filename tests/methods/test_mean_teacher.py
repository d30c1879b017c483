"""The teacher is the moving average of the student's weights, as written out, and it is the teacher who predicts."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy.special import softmax

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.mean_teacher import MeanTeacher
from deepcanon.models.feedforward.mlp import MLP
from tests.methods.semi_supervised import gains, linear


def test_the_teacher_is_the_average_that_the_formula_gives() -> None:
    """With the decay min(b, 1 - 1/t) it is the plain mean of the students at first, and a moving average later."""
    torch.manual_seed(0)
    method = MeanTeacher(ToyClassifier(2, 2).double(), decay=0.75)
    students, average = [], np.zeros(16)
    for step in range(1, 9):
        with torch.no_grad():
            for parameter in method.model.parameters():
                parameter.normal_()
        method.follow()
        students.append(method.model.first.weight.detach().numpy().ravel().copy())  # type: ignore[union-attr, operator]
        decay = min(0.75, 1 - 1 / step)
        average = decay * average + (1 - decay) * students[-1]
        teacher = method.teacher.first.weight.detach().numpy().ravel()  # type: ignore[union-attr, operator]
        np.testing.assert_allclose(teacher, average, rtol=1e-12)
        if step <= 4:
            np.testing.assert_allclose(teacher, np.mean(students, axis=0), rtol=1e-12)


def test_the_term_is_the_squared_distance_of_student_and_teacher() -> None:
    model, batch = linear()
    method = MeanTeacher(model, weight=4.0, strength=0.0, warmup=0.0)
    with torch.no_grad():
        for parameter in method.teacher.parameters():
            parameter.mul_(0.5)
    term = method.loss(batch)["consistency"]
    u = batch.unlabeled.numpy()
    weight, bias = (parameter.detach().numpy() for parameter in model.parameters())
    taught = [parameter.detach().numpy() for parameter in method.teacher.parameters()]
    student, teacher = softmax(u @ weight.T + bias, axis=1), softmax(u @ taught[0].T + taught[1], axis=1)
    assert term.item() == pytest.approx(4 * np.square(student - teacher).mean(), rel=1e-12)
    term.backward()
    assert all(parameter.grad is None for parameter in method.teacher.parameters())


def test_the_teacher_predicts_and_is_what_unwrap_gives() -> None:
    method = MeanTeacher(MLP(features=2, classes=2, hidden=(16,)), decay=0.9)
    data = dc.load_data("moons:labels=6")
    result = dc.fit(method, data, steps=30, quiet=True)
    x = data.split("test").x
    assert not torch.equal(method.model.predict(x, how="mean"), method.teacher.predict(x, how="mean"))  # type: ignore[operator]
    assert torch.equal(method.predict(x, how="mean"), method.teacher.predict(x, how="mean"))  # type: ignore[operator]
    assert torch.equal(method.unwrapped().predict(x), method.predict(x))  # type: ignore[operator]
    right = (method.predict(x) == data.split("test").y).double().mean().item()  # type: ignore[operator]
    assert result.test["accuracy"] == pytest.approx(right)


def test_statistics_of_batch_normalization_are_the_students() -> None:
    inner = ToyClassifier(2, 2)
    inner.norm = torch.nn.BatchNorm1d(8)
    method = MeanTeacher(inner, decay=0.9)
    method.follow()
    with torch.no_grad():
        inner.norm.running_mean.fill_(3.0)  # type: ignore[union-attr]
    method.follow()
    assert torch.equal(method.teacher.norm.running_mean, torch.full((8,), 3.0))  # type: ignore[union-attr, arg-type]


def test_a_copy_of_the_method_predicts_with_its_own_teacher() -> None:
    method, batch = MeanTeacher.example()
    other = copy.deepcopy(method)
    with torch.no_grad():
        for parameter in other.teacher.parameters():
            parameter.add_(1.0)
    ours, theirs = (each.predict(batch.x, how="mean") for each in (method, other))  # type: ignore[operator]
    assert not torch.equal(ours, theirs)


@pytest.mark.slow
def test_few_labels_with_a_mean_teacher_read_digits_better_than_alone() -> None:
    assert np.mean(gains("mean_teacher", "digits:labels=40", seeds=(100, 101))) > 0


def test_wrong_arguments_are_refused() -> None:
    for decay in (1.0, -0.1):
        with pytest.raises(UsageError, match="decay is at least 0 and below 1"):
            MeanTeacher(ToyClassifier(2, 2), decay=decay)
