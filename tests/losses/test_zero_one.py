"""The 0-1 loss is scikit-learn's."""

import pytest
import torch
from sklearn.metrics import zero_one_loss

from deepcanon.losses.zero_one import zero_one


def test_it_is_scikit_learns_and_one_minus_the_accuracy() -> None:
    scores = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.arange(50) % 3
    assert zero_one(scores, y).item() == pytest.approx(zero_one_loss(y, scores.argmax(1)), rel=1e-12)
    two = torch.arange(50) % 2
    assert zero_one(scores[:, 0], two).item() == pytest.approx(zero_one_loss(two, scores[:, 0] > 0), rel=1e-12)
