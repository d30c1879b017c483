"""Without unlabeled examples FixMatch is the supervised run, bit for bit; with them its loss is the paper's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax

import deepcanon as dc
from deepcanon.core import DataError, Model, UsageError
from deepcanon.core.toy import Toy
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.fixmatch import FixMatch
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.variational.vae import VAE
from tests.methods.semi_supervised import gains, linear


def trained(model: Model[Any]) -> dict[str, torch.Tensor]:
    """The weights of the classifier after a short run."""
    dc.fit(model, dc.load_data("moons:labels=6"), steps=40, batch_size=32, seed=3, quiet=True)
    inner = model.model if isinstance(model, FixMatch) else model
    assert isinstance(inner, Model)
    return inner.state_dict()


def net() -> MLP:
    torch.manual_seed(1)
    return MLP(features=2, classes=2, hidden=(16,), dropout=0.2)  # dropout draws at every step


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_without_unlabeled_examples_it_is_the_supervised_run_bit_for_bit() -> None:
    plain = trained(net())
    assert equal(trained(FixMatch(net(), weight=0.0, labeled="none")), plain)
    assert equal(trained(FixMatch(net(), threshold=1.01, labeled="none")), plain)
    assert not equal(trained(FixMatch(net(), threshold=0.6, labeled="none")), plain)


def test_weight_zero_and_a_threshold_above_one_are_the_same_augmented_run() -> None:
    augmented = trained(FixMatch(net(), weight=0.0))
    assert equal(trained(FixMatch(net(), threshold=1.01)), augmented)
    assert not equal(trained(net()), augmented)


@pytest.mark.parametrize("threshold", [0.0, 0.6, 0.8])
def test_the_term_and_its_gradient_are_the_closed_form_of_a_linear_classifier(threshold: float) -> None:
    model, batch = linear()
    method = FixMatch(model, weight=2.0, threshold=threshold, weak=0.0, strong=0.0)
    term = method.loss(batch)["pseudo_labels"]
    weight, bias = model.parameters()
    gradient = torch.autograd.grad(term, [weight, bias])

    u = batch.unlabeled.numpy()
    p = softmax(u @ weight.detach().numpy().T + bias.detach().numpy(), axis=1)
    sure, label = p.max(1) >= threshold, np.eye(4)[p.argmax(1)]
    assert 0 < sure.mean() <= 1
    assert term.item() == pytest.approx(2 * np.mean(-np.log(p.max(1)) * sure), rel=1e-12)
    slope = 2 * (p - label) * sure[:, None] / len(u)
    np.testing.assert_allclose(gradient[0], slope.T @ u, rtol=1e-10)
    np.testing.assert_allclose(gradient[1], slope.sum(0), rtol=1e-10)


def test_no_gradient_flows_through_the_weak_branch() -> None:
    method, batch = FixMatch.example()
    seen: list[tuple[bool, torch.Tensor]] = []
    method.model.register_forward_hook(lambda _, inputs, output: seen.append((output.requires_grad, inputs[0])))
    method.unlabeled_term(batch.unlabeled)
    assert [grad for grad, _ in seen] == [False, True]
    weak, strong = ((x - batch.unlabeled).std().item() for _, x in seen)
    assert weak == pytest.approx(0.1, rel=0.3)
    assert strong == pytest.approx(0.5, rel=0.3)


def test_held_out_examples_are_measured_as_they_are() -> None:
    method, batch = FixMatch.example()
    test = dc.load_data("moons:labels=6").split("test")
    method.eval()
    assert method.loss(test).keys() == {"nll"}
    assert torch.equal(method.loss(test)["nll"], method.model.loss(test)["nll"])
    shares = method.model.predict(test.x, how="mean").max(-1).values  # type: ignore[operator]
    assert method.metrics(test)["confident"].item() == pytest.approx((shares >= 0.6).double().mean().item())
    assert method.loss(batch).keys() == {"nll", "pseudo_labels"}


@pytest.mark.slow
def test_with_40_labels_digits_are_read_better_than_from_the_labels_alone() -> None:
    """Paired seeds, the same start and the same number of steps: of 360 test images ten more on average, say."""
    assert np.mean(gains("fixmatch", "digits:labels=40", seeds=(100, 101))) > 0.01


def test_it_trains_longer_than_the_model_it_wraps_where_it_uses_unlabeled_examples() -> None:
    recipe = net().recipe
    assert FixMatch(net()).recipe.epochs == 5 * recipe.epochs
    assert FixMatch(net()).recipe.lr == recipe.lr
    assert FixMatch(net(), **FixMatch.null).recipe == replace(recipe, keep_weights="last")


def test_wrong_arguments_and_models_are_refused() -> None:
    classifier = ToyClassifier(2, 2)
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"weight": -1.0}, "weight must be 0 or more"),
        ({"strong": -0.1}, "strong must be 0 or more"),
        ({"labeled": "both"}, "labeled must be one of none, weak, strong"),
    )
    for arguments, words in wrong:
        with pytest.raises(UsageError, match=words):
            FixMatch(classifier, **arguments)
    with pytest.raises(UsageError, match="fixmatch wraps a classifier; Toy has no predict"):
        FixMatch(Toy(2))
    with pytest.raises(UsageError, match="fixmatch wraps a classifier; vae has no predict"):
        FixMatch(VAE(features=4))
    regression = FixMatch(MLP(features=2, targets=1))
    with pytest.raises((UsageError, DataError)):
        regression.unlabeled_term(torch.zeros(3, 2))
