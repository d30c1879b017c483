"""The loss of pseudo-labels and its gradient are closed forms of a linear classifier; their weight grows as stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax

from deepcanon.core import UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.pseudo_label import PseudoLabel
from tests.methods.semi_supervised import linear


def test_the_term_and_its_gradient_are_the_closed_form_of_a_linear_classifier() -> None:
    model, batch = linear()
    method = PseudoLabel(model, weight=3.0, strength=0.0).eval()
    term = method.loss(batch)["pseudo_labels"]
    weight, bias = model.parameters()
    gradient = torch.autograd.grad(term, [weight, bias])

    u = batch.unlabeled.numpy()
    p = softmax(u @ weight.detach().numpy().T + bias.detach().numpy(), axis=1)
    assert term.item() == pytest.approx(3 * np.mean(-np.log(p.max(1))), rel=1e-12)
    slope = 3 * (p - np.eye(4)[p.argmax(1)]) / len(u)
    np.testing.assert_allclose(gradient[0], slope.T @ u, rtol=1e-10)
    np.testing.assert_allclose(gradient[1], slope.sum(0), rtol=1e-10)


def test_pseudo_labels_count_from_the_first_share_on_and_in_full_at_the_second() -> None:
    method, batch = PseudoLabel.example()
    for progress, share in ((0.0, 0.0), (0.1, 0.0), (0.35, 0.5), (0.6, 1.0), (1.0, 1.0)):
        method.progress = progress
        assert method.ramp() == pytest.approx(share)
    method.progress = 0.0
    assert method.loss(batch)["pseudo_labels"].item() == 0
    assert method.eval().loss(batch)["pseudo_labels"].item() > 0


def test_wrong_arguments_are_refused() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"begin": 0.5, "until": 0.5}, "0 <= begin < until <= 1"),
        ({"strength": -1.0}, "strength must be 0 or more"),
        ({"labeled": "strong"}, "labeled must be one of none, weak"),
    )
    for arguments, words in wrong:
        with pytest.raises(UsageError, match=words):
            PseudoLabel(ToyClassifier(2, 2), **arguments)
