"""Calibration and confusion against counting by hand and scikit-learn."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import confusion_matrix

import deepcanon as dc
from deepcanon.comparison.calibration import calibration_error, confusion_counts, measure_predictions
from deepcanon.core import Labeled
from deepcanon.train.scores import gather


def test_the_calibration_error_is_what_its_formula_says() -> None:
    generator = torch.Generator().manual_seed(0)
    shares = torch.randn(500, 4, generator=generator).softmax(1)
    true = torch.randint(4, (500,), generator=generator)
    expected = 0.0
    for place in range(15):
        inside = [
            (float(row.max()), float(row.argmax() == label))
            for row, label in zip(shares, true, strict=True)
            if place / 15 < float(row.max()) <= (place + 1) / 15
        ]
        if inside:
            confidence, accuracy = (sum(column) / len(inside) for column in zip(*inside, strict=True))
            expected += len(inside) / 500 * abs(accuracy - confidence)
    assert calibration_error(shares, true) == pytest.approx(expected, rel=1e-9)


def test_predictions_that_are_right_as_often_as_their_confidence_are_calibrated() -> None:
    shares = torch.tensor([[0.75, 0.25]]).repeat(4000, 1)
    true = (torch.rand(4000, generator=torch.Generator().manual_seed(0)) > 0.75).long()
    assert calibration_error(shares, true) < 4 * math.sqrt(0.75 * 0.25 / 4000)
    assert calibration_error(shares, torch.zeros(4000, dtype=torch.long)) == pytest.approx(0.25)


def test_confusion_is_what_scikit_learn_counts() -> None:
    generator = torch.Generator().manual_seed(1)
    shares, true = torch.rand(200, 5, generator=generator), torch.randint(5, (200,), generator=generator)
    assert confusion_counts(shares, true) == confusion_matrix(true, shares.argmax(1), labels=range(5)).tolist()


def test_only_classifiers_have_a_calibration() -> None:
    model, batch = dc.find("mlp").example()
    assert (predicted := gather(model, batch)) is not None
    assert measure_predictions(predicted) is not None
    assert gather(dc.find("vae").example()[0], Labeled(torch.zeros(3, 4), torch.zeros(3).long())) is None
    numbers = gather(dc.find("mlp")(features=4, targets=1), Labeled(torch.zeros(3, 4), torch.zeros(3, 1)))
    assert numbers is not None
    assert measure_predictions(numbers) is None
