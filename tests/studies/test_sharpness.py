"""Slices around trained networks go through their losses, and their curvature is that of the whole Hessian."""

from __future__ import annotations

import math

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.insights._engines.objective import Objective
from deepcanon.studies.residuals import DeepClassifier
from deepcanon.studies.sharpness import around, sentences, sharpness


@pytest.mark.slow
def test_slices_go_through_the_model_and_agree_where_they_meet() -> None:
    finding = sharpness(depth=2, width=8, steps=40, examples=64, points=5, lines=2, batches=(16, 128), seeds=2)
    found = finding.numbers
    assert list(found["networks"]) == [
        "residual in batches of 16",
        "residual in batches of 128",
        "plain in batches of 16",
    ]
    assert found["grid"] == [-1, -0.5, 0, 0.5, 1]
    for each in found["networks"].values():
        for loss, plane, lines, rise in zip(each["loss"], each["plane"], each["lines"], each["rise"], strict=True):
            assert plane[2][2] == pytest.approx(loss, abs=1e-12)
            assert plane[2] == pytest.approx(lines[0], abs=1e-12)
            assert [row[2] for row in plane] == pytest.approx(lines[1], abs=1e-12)
            ends = [value for line in lines for value in (line[0], line[-1])]
            assert rise == pytest.approx(sum(ends) / 4 - loss, abs=1e-12)
            assert loss < math.log(10), "it has learnt more than to guess"
    planes = [axes for axes in finding.figure.axes if "first seed" in axes.get_title("left")]
    levels = [next(c for c in axes.collections if getattr(c, "filled", False)).levels for axes in planes]
    assert len(planes) == 3
    assert all(list(own) == list(levels[0]) for own in levels), "panels that are compared have the same levels"


def test_measures_that_disagree_are_said_to() -> None:
    def planted(rise: tuple[float, float], eigenvalue: tuple[float, float]) -> str:
        networks = {
            name: {
                "rise": [rise[i], rise[i] + 0.1, rise[i]],
                "largest_eigenvalue": [eigenvalue[i], eigenvalue[i] + 0.1, eigenvalue[i]],
                "losses": [0.1] * 3, "accuracies": [0.9] * 3, "rate": 0.01,
            }
            for i, name in enumerate(("narrow", "wide"))
        }  # fmt: skip
        return sentences({"depth": 3, "networks": networks})[0]

    assert "both call wide the flattest; wide: rise 2.03" in planted((9, 2), (7, 1))
    words = planted((9, 2), (1, 7))
    assert "the rise along random lines calls wide the flattest, the largest eigenvalue narrow the flattest" in words
    assert "both call narrow and wide flattest and cannot tell them apart" in planted((2, 2), (7, 7))


def test_the_largest_eigenvalue_is_that_of_the_dense_hessian() -> None:
    torch.manual_seed(0)
    data = load_data("digits")
    model = DeepClassifier(features=64, classes=10, kind="residual", depth=1, width=2)
    batch = data.train.select(torch.arange(50))
    loss = Objective(model, batch)
    dense = torch.autograd.functional.hessian(loss, loss.theta)
    largest = torch.linalg.eigvalsh(dense)[-1].item()
    assert around(model, batch, 3, 1, 0)["largest_eigenvalue"] == pytest.approx(largest, rel=1e-2)


def test_examples_need_classes() -> None:
    with pytest.raises(UsageError, match="needs examples with classes; diabetes has none"):
        sharpness(data="diabetes")
