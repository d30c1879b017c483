"""Aligned predictions are distributed as the labels; the term is the cross-entropy that NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from deepcanon.core import SemiBatch, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._soft_labels import WINDOW, Alignment
from deepcanon.methods.distribution_alignment import DistributionAlignment
from deepcanon.models.feedforward.mlp import MLP
from tests.methods.semi_supervised import gains, linear


def test_the_term_is_the_formula_of_a_linear_classifier() -> None:
    model, batch = linear()
    few = SemiBatch(batch.x[:5], torch.tensor([0, 0, 1, 2, 3]), batch.unlabeled)  # class 0 is twice as frequent
    method = DistributionAlignment(model, weight=2.0, weak=0.0, strong=0.0, labeled="none")
    method.prepare([few])
    term = method.loss(few)["guessed_labels"].item()

    weight, bias = (parameter.detach().numpy() for parameter in model.parameters())
    logits = batch.unlabeled.numpy() @ weight.T + bias
    p = softmax(logits, axis=1)
    aligned = p * np.array([0.4, 0.2, 0.2, 0.2]) / p.mean(0)
    squared = (aligned / aligned.sum(1, keepdims=True)) ** 2
    guess = squared / squared.sum(1, keepdims=True)
    assert term == pytest.approx(-2 * (guess * log_softmax(logits, axis=1)).sum(1).mean(), rel=1e-10)


def test_the_mean_of_unnormalized_aligned_predictions_is_the_distribution_of_the_labels() -> None:
    """The scaling alone moves the mean to the prior exactly; normalized rows stay much nearer to it than before."""
    torch.manual_seed(0)
    alignment = Alignment(3).double()
    alignment.count(torch.tensor([0] * 6 + [1] * 3 + [2]))
    assert alignment.prior.tolist() == pytest.approx([0.6, 0.3, 0.1])
    shares = (torch.randn(500, 3, dtype=torch.float64) + torch.tensor([0.0, 0.0, 2.0])).softmax(-1)
    aligned = alignment(shares)
    torch.testing.assert_close(aligned.sum(-1), torch.ones(500, dtype=torch.float64))
    scaled = shares * alignment.prior / shares.mean(0)
    torch.testing.assert_close(scaled.mean(0), alignment.prior)
    torch.testing.assert_close(aligned, scaled / scaled.sum(-1, keepdim=True))
    before, after = ((p.mean(0) - alignment.prior).abs().sum() for p in (shares, aligned))
    assert after < before / 4


def test_the_running_mean_is_over_the_last_batches_and_is_kept_in_eval_mode() -> None:
    alignment = Alignment(2)
    for _ in range(10):
        alignment(torch.tensor([[1.0, 0.0]]))
    for _ in range(WINDOW):
        alignment(torch.tensor([[0.2, 0.8]]))
    torch.testing.assert_close(alignment.recent.mean(0), torch.tensor([0.2, 0.8]))
    before = {name: value.clone() for name, value in alignment.state_dict().items()}
    alignment.eval()(torch.tensor([[0.9, 0.1]]))
    assert all(torch.equal(value, before[name]) for name, value in alignment.state_dict().items())


@pytest.mark.slow
def test_few_labels_with_aligned_guesses_read_digits_better_than_alone() -> None:
    assert np.mean(gains("distribution_alignment", "digits:labels=40", seeds=(100, 101))) > 0


def test_wrong_arguments_and_models_are_refused() -> None:
    with pytest.raises(UsageError, match="temperature must be positive"):
        DistributionAlignment(ToyClassifier(2, 2), temperature=0.0)
    with pytest.raises(UsageError, match="weak must be 0 or more"):
        DistributionAlignment(ToyClassifier(2, 2), weak=-0.5)
    with pytest.raises(UsageError, match="distribution_alignment wraps a classifier; mlp predicts real numbers"):
        DistributionAlignment(MLP(features=2, targets=1))
