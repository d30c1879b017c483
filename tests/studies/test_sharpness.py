"""Slices around trained networks go through their losses, and their curvature is that of the whole Hessian."""

from __future__ import annotations

import math

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.insights._engines.objective import Objective
from deepcanon.studies.residuals import DeepClassifier
from deepcanon.studies.sharpness import around, sharpness


def test_slices_go_through_the_model_and_agree_where_they_meet() -> None:
    found = sharpness(depth=3, width=8, steps=40, examples=64, points=5, lines=2, batches=(16, 128)).numbers
    assert list(found["networks"]) == ["batches of 16", "batches of 128", "plain"]
    for each in found["networks"].values():
        assert each["steps"] == [-1, -0.5, 0, 0.5, 1]
        assert each["plane"][2][2] == pytest.approx(each["loss"], abs=1e-12)
        assert each["plane"][2] == pytest.approx(each["lines"][0], abs=1e-12)
        assert [row[2] for row in each["plane"]] == pytest.approx(each["lines"][1], abs=1e-12)
        ends = [value for line in each["lines"] for value in (line[0], line[-1])]
        assert each["rise"] == pytest.approx(sum(ends) / 4 - each["loss"], abs=1e-12)
        assert each["loss"] < math.log(10), "it has learnt more than to guess"


def test_the_largest_eigenvalue_is_that_of_the_dense_hessian() -> None:
    torch.manual_seed(0)
    data = load_data("digits")
    model = DeepClassifier(features=64, classes=10, kind="residual", depth=1, width=2)
    batch = data.train.select(torch.arange(50))
    loss = Objective(model, batch)
    dense = torch.autograd.functional.hessian(loss, loss.theta)
    largest = torch.linalg.eigvalsh(dense)[-1].item()
    assert around(model, batch, data.split("test"), 3, 1, 0)["largest_eigenvalue"] == pytest.approx(largest, rel=1e-2)


def test_examples_need_classes() -> None:
    with pytest.raises(UsageError, match="needs examples with classes; diabetes has none"):
        sharpness(data="diabetes")
