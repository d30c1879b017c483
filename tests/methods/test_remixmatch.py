"""ReMixMatch has the loss of the paper on what it has mixed, and anchors strong augmentations to weak ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from deepcanon.core import UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.remixmatch import ReMixMatch
from tests.methods.semi_supervised import gains, linear, mixed_targets


def test_the_loss_is_that_of_the_examples_it_has_mixed() -> None:
    model, batch = linear()
    method = ReMixMatch(model, weight=2.0, unmixed=0.25, weak=0.0, strong=0.0, warmup=0.0)
    method.prepare([batch])  # each of the four classes has two labels
    seen: list[np.ndarray] = []
    model.register_forward_hook(lambda _, inputs, output: seen.append(inputs[0].detach().numpy()))
    terms = {name: term.item() for name, term in method.loss(batch).items()}

    weight, bias = (parameter.detach().numpy() for parameter in model.parameters())
    u = batch.unlabeled.numpy()
    p = softmax(u @ weight.T + bias, axis=1)
    aligned = p / p.mean(0)
    squared = (aligned / aligned.sum(1, keepdims=True)) ** 2
    guess = squared / squared.sum(1, keepdims=True)
    x = np.concatenate([batch.x.numpy(), u, u, u])
    q = np.concatenate([np.eye(4)[batch.y.numpy()], guess, guess, guess])
    targets = mixed_targets(seen[-1][: len(x)], x, q)
    log_p = log_softmax(seen[-1] @ weight.T + bias, axis=1)
    entropies = -(np.concatenate([targets, guess]) * log_p).sum(1)
    assert terms["nll"] == pytest.approx(entropies[:8].mean(), rel=1e-9)
    unlabeled = entropies[8 : len(x)].mean() + 0.25 * entropies[len(x) :].mean()
    assert terms["guessed_labels"] == pytest.approx(2 * unlabeled, rel=1e-9)


def test_guesses_come_from_the_weak_augmentation_and_are_targets_of_all_others() -> None:
    method, batch = ReMixMatch.example()
    seen: list[tuple[bool, torch.Tensor]] = []
    method.model.register_forward_hook(lambda _, inputs, output: seen.append((output.requires_grad, inputs[0])))
    method.loss(batch)
    (guessed, weak), (learned, mixed) = seen
    assert (guessed, learned) == (False, True)
    assert (weak - batch.unlabeled).std().item() == pytest.approx(0.1, rel=0.3)
    # 32 labeled ones, two strong copies and the weak one of 32 unlabeled ones, and one strong copy that is not mixed
    assert len(mixed) == 32 * 5
    assert (mixed[-32:] - batch.unlabeled).std().item() == pytest.approx(0.5, rel=0.3)


@pytest.mark.slow
def test_few_labels_with_remixmatch_read_digits_better_than_alone() -> None:
    assert np.mean(gains("remixmatch", "digits:labels=40", seeds=(100, 101))) > 0


def test_wrong_arguments_are_refused() -> None:
    for arguments, words in (
        ({"copies": 0}, "copies must be at least 1"),
        ({"strong": -1.0}, "strong must be 0 or more"),
        ({"labeled": "both"}, "labeled must be one of none, weak, strong"),
        ({"warmup": -0.1}, "warmup is a share of the training"),
    ):
        with pytest.raises(UsageError, match=words):
            ReMixMatch(ToyClassifier(2, 2), **arguments)
