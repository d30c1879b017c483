"""Noise in training has expected losses that are known in closed form: ridge regression, label smoothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn

import deepcanon as dc
from deepcanon.core import Labeled, UsageError
from deepcanon.core.toy import Toy
from deepcanon.methods.noise_injection import NoiseInjection
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.feedforward.mlp import MLP

STD = 0.5
TIMES = 4000


def regression(hidden: tuple[int, ...] = ()) -> tuple[MLP, Labeled, Labeled]:
    """A linear model, its data, and the same data many times over, whose mean loss is nearly the expected one."""
    torch.manual_seed(0)
    model = MLP(features=3, targets=2, hidden=hidden).double()
    x = torch.randn(40, 3, dtype=torch.float64)
    y = x @ torch.randn(3, 2, dtype=torch.float64) + 0.3 * torch.randn(40, 2, dtype=torch.float64) + 1
    return model, Labeled(x, y), Labeled(x.repeat(TIMES, 1), y.repeat(TIMES, 1))


def penalty(method: NoiseInjection[Any], few: Labeled, many: Labeled) -> float:
    """What the noise adds to the loss, as measured."""
    torch.manual_seed(0)
    with torch.no_grad():
        return method.train().loss(many)["mse"].item() - method.eval().loss(few)["mse"].item()


def test_noise_on_the_input_of_a_linear_model_is_ridge_regression() -> None:
    model, few, many = regression()
    weight, bias = model.parameters()
    wanted = STD**2 * weight.detach().square().sum().item()
    assert penalty(NoiseInjection(model, inputs=STD), few, many) == pytest.approx(wanted, rel=0.05)

    # The gradient of the noisy loss vanishes at scikit-learn's ridge regression, and not at that of another strength.
    def slope(alpha: float) -> float:
        fitted = Ridge(alpha=alpha).fit(few.x.numpy(), few.y.numpy())
        with torch.no_grad():
            weight.copy_(torch.tensor(fitted.coef_))
            bias.copy_(torch.tensor(fitted.intercept_))
        torch.manual_seed(0)
        method: NoiseInjection[Any] = NoiseInjection(model, inputs=STD)
        found = torch.autograd.grad(method.loss(many)["mse"], [weight, bias])
        return float(torch.cat([part.flatten() for part in found]).norm())

    right = slope(len(few) * STD**2)
    assert right < 0.02
    assert min(slope(0.5 * len(few) * STD**2), slope(2 * len(few) * STD**2)) > 10 * right


def test_noise_on_the_weights_penalizes_large_inputs() -> None:
    """One weight matrix is drawn for a whole batch, so many steps stand for many draws."""
    model, few, _ = regression()
    method: NoiseInjection[Any] = NoiseInjection(model, inputs=0.0, weights=STD)
    torch.manual_seed(0)
    with torch.no_grad():
        noisy_losses = torch.stack([method.loss(few)["mse"] for _ in range(2000)])
        added = noisy_losses.mean() - model.loss(few)["mse"]
    wanted = 2 * STD**2 * few.x.square().sum(-1).mean()  # two targets
    assert abs(added - wanted) < 4 * noisy_losses.std() / 2000**0.5
    before = copy.deepcopy(model.state_dict())
    method.loss(few)["mse"].backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_noise_on_activations_penalizes_the_weights_after_them() -> None:
    model, few, many = regression(hidden=(5,))
    last = model.get_parameter("net.2.weight").detach()
    assert penalty(NoiseInjection(model, inputs=0.0, activations=STD), few, many) == pytest.approx(
        STD**2 * last.square().sum().item(), rel=0.05
    )


def test_noise_on_real_targets_adds_its_variance() -> None:
    model, few, many = regression()
    assert penalty(NoiseInjection(model, inputs=0.0, targets=STD), few, many) == pytest.approx(2 * STD**2, rel=0.05)


def test_noise_on_classes_is_label_smoothing() -> None:
    torch.manual_seed(0)
    model = MLP(features=3, classes=4, hidden=()).double()
    with torch.no_grad():
        model.get_parameter("net.0.weight").mul_(5)  # so that a wrong class costs much
    x = torch.randn(20, 3, dtype=torch.float64)
    y = torch.arange(20) % 4
    method: NoiseInjection[Any] = NoiseInjection(model, inputs=0.0, targets=0.3)
    many = Labeled(x.repeat(5000, 1), y.repeat(5000))
    with torch.no_grad():
        smoothed = nn.functional.cross_entropy(model(x), y, label_smoothing=0.3)
        plain = model.loss(Labeled(x, y))["nll"]
        noisy_loss = method.loss(many)["nll"]
    assert abs(noisy_loss - smoothed) < 0.05 * abs(plain - smoothed)


def test_a_trained_model_predicts_without_noise() -> None:
    method: NoiseInjection[Any]
    method, batch = NoiseInjection.example()
    method.eval()
    assert torch.equal(method.loss(batch)["nll"], method.model.loss(batch)["nll"])
    assert torch.equal(method(batch.x), method(batch.x))
    method.train()
    assert not torch.equal(method.loss(batch)["nll"], method.loss(batch)["nll"])


@pytest.mark.parametrize("where", ["inputs", "activations", "weights", "targets"])
def test_each_noise_takes_part_in_training_and_none_is_the_plain_run(where: str) -> None:
    ends = []
    for strength in (None, 0.0, 0.2):
        torch.manual_seed(1)
        model = MLP(features=2, classes=2, hidden=(8,), dropout=0.1)
        method = model if strength is None else NoiseInjection(model, **{"inputs": 0.0, where: strength})
        dc.fit(method, dc.load_data("moons"), steps=6, batch_size=32, quiet=True)
        ends.append(copy.deepcopy(model.state_dict()))
    plain, idle, disturbed = ends
    assert all(torch.equal(plain[name], idle[name]) for name in plain)
    assert not torch.equal(plain["net.0.weight"], disturbed["net.0.weight"])


def test_both_players_of_a_game_learn_under_noise() -> None:
    torch.manual_seed(0)
    model, batch = GAN.example()
    method: NoiseInjection[Any] = NoiseInjection(model, inputs=0.1, weights=0.1)
    losses = [[turn.loss(batch) for _ in range(2)] for turn in method.turns()]  # type: ignore[attr-defined]
    assert len(losses) == 2
    for first, second in losses:
        assert all(not torch.equal(first[name], second[name]) for name in first)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="weights must be 0 or more"):
        NoiseInjection(Toy(2), weights=-1.0)
    with pytest.raises(UsageError, match="targets is the probability to replace a class, at most 1"):
        NoiseInjection(MLP(features=2, classes=2), targets=1.5)
    with pytest.raises(UsageError, match="has no hidden layer"):
        NoiseInjection(Toy(2), activations=0.1)
    model, batch = Toy.example()
    method: NoiseInjection[Any] = NoiseInjection(model, targets=0.1)
    with pytest.raises(UsageError, match="needs labeled examples; there are examples"):
        method.loss(batch)
