"""MixMatch mixes by Beta numbers, guesses by sharpened means, and has the loss of the paper on what it has mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import beta, kstest

from deepcanon.core import UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._soft_labels import mixed_up, sharpened
from deepcanon.methods.mixmatch import MixMatch
from tests.methods.semi_supervised import gains, linear, mixed_targets


def test_the_loss_is_that_of_the_examples_it_has_mixed() -> None:
    """What the classifier is given says how each example was mixed; the rest is the paper's formula in NumPy."""
    model, batch = linear()
    method = MixMatch(model, weight=3.0, strength=0.0, warmup=0.0)  # both copies of an unlabeled example are itself
    seen: list[np.ndarray] = []
    model.register_forward_hook(lambda _, inputs, output: seen.append(inputs[0].detach().numpy()))
    torch.manual_seed(0)
    terms = {name: term.item() for name, term in method.loss(batch).items()}
    mixed = seen[-1]

    weight, bias = (parameter.detach().numpy() for parameter in model.parameters())
    u = batch.unlabeled.numpy()
    squared = softmax(u @ weight.T + bias, axis=1) ** 2  # the temperature is 1/2
    guess = squared / squared.sum(1, keepdims=True)
    x = np.concatenate([batch.x.numpy(), u, u])
    q = np.concatenate([np.eye(4)[batch.y.numpy()], guess, guess])
    targets = mixed_targets(mixed, x, q)
    logits = mixed @ weight.T + bias
    nll = -(targets * log_softmax(logits, axis=1))[:8].sum(1).mean()
    distance = np.square(targets - softmax(logits, axis=1))[8:].mean()
    assert terms == {"nll": pytest.approx(nll, rel=1e-9), "consistency": pytest.approx(3 * distance, rel=1e-9)}


@pytest.mark.slow
def test_shares_are_the_larger_of_a_beta_number_and_its_complement() -> None:
    torch.manual_seed(0)
    x = torch.eye(4000, dtype=torch.float64)
    mixed, targets = mixed_up(x, x, alpha=0.75)
    assert torch.equal(mixed, targets)
    shares = mixed.diagonal()[mixed.diagonal() < 1]  # but for the one example in 4,000 that is its own partner
    assert shares.min() >= 0.5
    assert kstest(shares.numpy(), lambda s: 2 * (beta.cdf(s, 0.75, 0.75) - 0.5)).pvalue > 0.01


def test_a_sharpened_distribution_is_itself_at_temperature_one_and_its_mode_at_zero() -> None:
    shares = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    torch.testing.assert_close(sharpened(shares, 1.0), shares)
    torch.testing.assert_close(sharpened(shares, 0.5), shares.square() / shares.square().sum())
    torch.testing.assert_close(sharpened(shares, 0.01), torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64))


def test_no_gradient_flows_through_the_guesses_and_the_weight_grows() -> None:
    method, batch = MixMatch.example()
    grads: list[bool] = []
    method.model.register_forward_hook(lambda _, inputs, output: grads.append(output.requires_grad))
    method.progress = 0.0
    assert method.loss(batch)["consistency"].item() == 0
    assert grads == [False, True]
    method.progress = 0.15
    torch.manual_seed(0)
    half = method.loss(batch)["consistency"].item()
    method.progress = 0.3
    torch.manual_seed(0)
    assert method.loss(batch)["consistency"].item() == pytest.approx(2 * half)


@pytest.mark.slow
def test_few_labels_with_mixmatch_read_digits_better_than_alone() -> None:
    assert np.mean(gains("mixmatch", "digits:labels=40", seeds=(100, 101))) > 0


def test_wrong_arguments_are_refused() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"copies": 0}, "copies must be at least 1"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"alpha": -1.0}, "alpha must be positive"),
        ({"warmup": 1.5}, "warmup is a share of the training"),
    )
    for arguments, words in wrong:
        with pytest.raises(UsageError, match=words):
            MixMatch(ToyClassifier(2, 2), **arguments)
