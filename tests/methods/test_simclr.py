"""SimCLR's loss is NT-Xent of projected features; its features serve a linear probe better than pixels do."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import deepcanon as dc
from deepcanon.core import Batch, Labeled, SemiBatch, UsageError, methods_of
from deepcanon.core.toy import Toy
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.losses import nt_xent
from deepcanon.methods.simclr import SimCLR
from deepcanon.models.convolutional.cnn import CNN


def test_the_loss_is_nt_xent_of_the_features_below_the_last_layer() -> None:
    torch.manual_seed(0)
    model = ToyClassifier(features=3, classes=2).double()
    method = SimCLR(model, strength=0.0, temperature=0.7)
    x = torch.randn(9, 3, dtype=torch.float64)
    w1, b1, w2, b2 = (p.detach() for p in method.projector.parameters())
    features = model.first(x).tanh()
    z = (features @ w1.T + b1).clamp_min(0) @ w2.T + b2
    torch.testing.assert_close(method.loss(Batch(x))["contrastive"], nt_xent(z, z, 0.7))
    torch.testing.assert_close(method.encode(x), features)  # type: ignore[operator]


def test_a_projection_that_has_collapsed_costs_the_log_of_the_number_of_others() -> None:
    method = SimCLR(ToyClassifier(features=2, classes=2), strength=0.3)
    with torch.no_grad():
        method.projector[2].weight.zero_()  # type: ignore[operator]
        method.projector[2].bias.fill_(1.0)  # type: ignore[operator]
    loss = method.loss(Batch(torch.randn(20, 2)))["contrastive"].item()
    assert loss == pytest.approx(math.log(39), abs=1e-5)


def test_labels_are_not_used_and_the_last_layer_is_not_trained() -> None:
    torch.manual_seed(0)
    method, batch = SimCLR.example()
    assert isinstance(batch, Labeled)
    assert methods_of(method) == ("encode",)
    losses = []
    for y in (batch.y, 1 - batch.y):
        torch.manual_seed(1)
        losses.append(method.loss(Labeled(batch.x, y))["contrastive"].item())
    assert losses[0] == losses[1]
    (turn,) = method.turns()
    last = {id(parameter) for parameter in method.model.last.parameters()}  # type: ignore[union-attr]
    assert not last & {id(parameter) for parameter in turn.parameters}  # type: ignore[attr-defined]
    plain = method.unwrapped()
    assert all(parameter.requires_grad for parameter in plain.parameters())
    few = SemiBatch(batch.x[:2], batch.y[:2], batch.x[2:])
    torch.manual_seed(1)
    of_unlabeled = method.loss(few)
    torch.manual_seed(1)
    assert of_unlabeled["contrastive"] == method.loss(Batch(batch.x[2:]))["contrastive"]


def test_both_losses_may_be_learned_together() -> None:
    method = SimCLR(ToyClassifier(2, 2), weight=0.5, supervised=2.0)
    batch = ToyClassifier.example()[1]
    terms = method.loss(batch)
    assert terms["nll"].item() == pytest.approx(2 * method.model.loss(batch)["nll"].item())
    assert terms.keys() == {"nll", "contrastive"}
    assert "predict" in methods_of(method)
    with pytest.raises(UsageError, match="supervised=2 is the weight of a loss of labels; there are none"):
        method.loss(Batch(batch.x))


@pytest.mark.slow
def test_a_linear_probe_reads_its_features_better_than_pixels_and_than_those_of_a_random_encoder() -> None:
    data = dc.load_data("digits")
    train, test = data.split("train"), data.split("test")
    torch.manual_seed(0)
    method = SimCLR(CNN(channels=1, height=8, width=8, classes=10))
    random_features = [method.encode(split.x).numpy() for split in (train, test)]  # type: ignore[operator]
    dc.fit(method, data, steps=300, seed=0, quiet=True, evaluate=False)
    learned = [method.encode(split.x).numpy() for split in (train, test)]  # type: ignore[operator]
    pixels = [split.x.flatten(1).numpy() for split in (train, test)]
    rows = np.arange(50)  # few labels, as a probe is meant for

    def probed(parts: list[np.ndarray]) -> float:
        scale = parts[0].std()
        probe = LogisticRegression(max_iter=2000).fit(parts[0][rows] / scale, train.y.numpy()[rows])
        return float(probe.score(parts[1] / scale, test.y.numpy()))

    score = probed(learned)
    assert score > probed(pixels) + 0.02
    assert score > probed(random_features) + 0.02


def test_wrong_arguments_and_models_are_refused() -> None:
    for arguments, words in (
        ({"weight": 0.0}, "not both 0"),
        ({"weight": -1.0}, "weights are 0 or more"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"projection": 0}, "projection must be at least 1"),
        ({"strength": -1.0}, "strength must be 0 or more"),
    ):
        with pytest.raises(UsageError, match=words):
            SimCLR(ToyClassifier(2, 2), **arguments)
    with pytest.raises(UsageError, match="simclr wraps a model with predict; Toy has no predict"):
        SimCLR(Toy(2))
