"""An attack is exact where the model is linear, stays in its box, and training against it makes a model robust."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import Labeled, UsageError
from deepcanon.core.toy import Toy
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.adversarial_training import AdversarialTraining
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.linear.softmax_regression import SoftmaxRegression

EPSILON = 0.2


def linear() -> tuple[SoftmaxRegression, Labeled]:
    random = torch.Generator().manual_seed(0)
    model = SoftmaxRegression(features=6, classes=2).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, generator=random)
    return model, Labeled(torch.randn(30, 6, generator=random, dtype=torch.float64), torch.arange(30) % 2)


@pytest.mark.parametrize("attack", ["fgsm", "pgd"])
def test_on_a_linear_model_the_attack_is_the_exact_maximum(attack: Literal["fgsm", "pgd"]) -> None:
    """The worst loss of logistic regression in a box is log(1 + exp(-margin + epsilon |w|_1))."""
    model, batch = linear()
    method = AdversarialTraining(model, epsilon=EPSILON, attack=attack)
    weight, bias = (parameter.detach().numpy() for parameter in model.parameters())
    w, b, side = weight[1] - weight[0], bias[1] - bias[0], 2 * batch.y.numpy() - 1
    margin = side * (batch.x.numpy() @ w + b)
    worst = np.logaddexp(0, -margin + EPSILON * np.abs(w).sum())
    changed = method.attacked(batch)
    assert model.loss(changed)["nll"].item() == pytest.approx(worst.mean(), rel=1e-12)
    np.testing.assert_allclose(changed.x - batch.x, -EPSILON * side[:, None] * np.sign(w), rtol=1e-9)
    terms = method.train().loss(batch)
    assert terms["adversarial"].item() == pytest.approx(0.5 * worst.mean(), rel=1e-12)
    assert terms["nll"].item() == pytest.approx(0.5 * np.logaddexp(0, -margin).mean(), rel=1e-12)
    right = (margin - EPSILON * np.abs(w).sum() > 0).mean()
    assert method.metrics(batch)["robust_accuracy"].item() == pytest.approx(right)


def test_changed_examples_stay_in_the_box_and_in_the_range() -> None:
    torch.manual_seed(0)
    model, batch = MLP.example()
    attacks: tuple[Literal["fgsm", "pgd"], ...] = ("fgsm", "pgd")
    for attack in attacks:
        method = AdversarialTraining(model, epsilon=EPSILON, attack=attack, low=-1.0, high=1.0)
        inside = Labeled(batch.x.clamp(-1, 1), batch.y)
        changed = method.attacked(inside).x
        assert (changed - inside.x).abs().max() <= EPSILON + 1e-6
        assert changed.abs().max() <= 1
        assert not changed.requires_grad
    assert model.loss(method.attacked(batch))["nll"] > model.loss(batch)["nll"]


def test_more_steps_find_worse_examples_than_one() -> None:
    torch.manual_seed(0)
    model = MLP(features=2, classes=2, hidden=(32,), activation="tanh")
    data = dc.load_data("moons")
    dc.fit(model, data, steps=150, batch_size=64, lr=0.02, quiet=True)
    test, losses = data.split("test"), {}
    for attack in ("fgsm", "pgd"):
        method = AdversarialTraining(model, epsilon=0.5, attack=attack, iterations=20)
        torch.manual_seed(0)
        losses[attack] = model.eval().loss(method.attacked(test))["nll"].item()
    assert losses["pgd"] > losses["fgsm"] > model.loss(test)["nll"].item()


def test_an_attack_leaves_weights_gradients_modes_and_random_numbers_alone() -> None:
    torch.manual_seed(0)
    model = MLP(features=3, classes=2, hidden=(8,), dropout=0.5)
    _, batch = MLP.example()
    method = AdversarialTraining(model).train()
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    once, again = method.attacked(batch), method.attacked(batch)
    assert torch.equal(once.x, again.x)
    assert torch.equal(random, torch.get_rng_state())
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_at_epsilon_zero_the_run_is_the_plain_one_bit_for_bit() -> None:
    ends = []
    for epsilon in (None, 0.0, 0.1):
        torch.manual_seed(1)
        model = MLP(features=2, classes=2, hidden=(8,), dropout=0.1)
        method = model if epsilon is None else AdversarialTraining(model, epsilon=epsilon)
        dc.fit(method, dc.load_data("moons"), steps=6, batch_size=32, quiet=True)
        ends.append(copy.deepcopy(model.state_dict()))
    plain, idle, hardened = ends
    assert all(torch.equal(plain[name], idle[name]) for name in plain)
    assert not torch.equal(plain["net.0.weight"], hardened["net.0.weight"])


@pytest.mark.slow
def test_training_against_the_attack_makes_digits_robust_and_examples_carry_over() -> None:
    """Accuracy under attack of both trainings, by paired seeds; what misleads one model misleads another."""
    data = dc.load_data("digits")
    test, gains, carried = data.split("test"), [], []
    for seed in range(3):
        scores, models = [], []
        for epsilon in (0.0, 0.15):
            torch.manual_seed(seed)
            model = MLP(features=64, classes=10, hidden=(64,))
            dc.fit(AdversarialTraining(model, epsilon=epsilon), data, steps=200, seed=seed, quiet=True, evaluate=False)
            attack = AdversarialTraining(model, epsilon=0.15).eval()
            scores.append(attack.metrics(test)["robust_accuracy"].item())
            models.append(attack)
        gains.append(scores[1] - scores[0])
        torch.manual_seed(100 + seed)
        other = MLP(features=64, classes=10, hidden=(64,))
        dc.fit(other, data, steps=200, seed=seed, quiet=True, evaluate=False)
        plain = other.eval().metrics(test)["accuracy"].item()
        carried.append(plain - other.metrics(models[0].attacked(test))["accuracy"].item())
    assert min(gains) > 0.05, gains
    assert min(carried) > 0.05, carried


def test_wrong_arguments_are_refused() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"epsilon": -0.1}, "epsilon must be 0 or more"),
        ({"clean": 1.0}, "clean is a share of the loss"),
        ({"attack": "cw"}, "attack must be one of fgsm, pgd"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"low": 1.0, "high": 0.0}, "low is to be below high"),
    )
    for arguments, words in wrong:
        with pytest.raises(UsageError, match=words):
            AdversarialTraining(ToyClassifier(2, 2), **arguments)
    with pytest.raises(UsageError, match="wraps a model with predict; Toy has no predict"):
        AdversarialTraining(Toy(2))
    method = AdversarialTraining(ToyClassifier(2, 2))
    with pytest.raises(UsageError, match="only real inputs can be perturbed"):
        method.attacked(Labeled(torch.zeros(3, 2, dtype=torch.long), torch.zeros(3, dtype=torch.long)))
    assert math.isfinite(method.loss(ToyClassifier.example()[1])["adversarial"].item())


def test_robust_accuracy_is_that_under_the_stronger_attack() -> None:
    data = dc.load_data("digits")
    torch.manual_seed(0)
    model = MLP(64, classes=10, hidden=(32,))
    dc.fit(model, data, epochs=3, quiet=True)
    method, batch = AdversarialTraining(model, epsilon=0.15, attack="fgsm"), data.split("test")
    by_fgsm, by_pgd = (
        float((model.predict(method.attacked(batch, attack).x) == batch.y).float().mean()) for attack in ATTACKS
    )
    assert by_pgd < by_fgsm
    assert method.metrics(batch)["robust_accuracy"].item() == pytest.approx(by_pgd, abs=0.02)  # from another start


ATTACKS: tuple[Literal["fgsm"], Literal["pgd"]] = ("fgsm", "pgd")
