"""Monte-Carlo dropout averages over thinned networks: what it approaches is the exact average over all masks."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

import deepcanon as dc
from deepcanon.core import Labeled, UsageError
from deepcanon.core.toy import Toy
from deepcanon.methods.mc_dropout import MCDropout
from deepcanon.models.convolutional.cnn import CNN
from deepcanon.models.feedforward.mlp import MLP


def net(dropout: float = 0.0, classes: int | None = 3, hidden: tuple[int, ...] = (4,)) -> MLP:
    torch.manual_seed(0)
    targets = 2 if classes is None else None
    model = MLP(features=2, classes=classes, targets=targets, hidden=hidden, dropout=dropout).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


X = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def enumerated(model: MLP, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """The exact mean and standard deviation of the probabilities over all masks of four hidden units, in numpy."""
    w1, b1, w2, b2 = (parameter.detach().numpy() for parameter in model.parameters())
    hidden = np.maximum(X.numpy() @ w1.T + b1, 0)
    mean, square = np.zeros((5, 3)), np.zeros((5, 3))
    for mask in itertools.product((0.0, 1.0), repeat=4):
        probability = math.prod(1 - rate if kept else rate for kept in mask)
        shares = softmax(hidden * np.array(mask) / (1 - rate) @ w2.T + b2, axis=1)
        mean += probability * shares
        square += probability * shares**2
    return mean, np.sqrt(square - mean**2)


@pytest.mark.parametrize("own", [False, True], ids=["added", "own"])
def test_the_mean_is_the_average_over_all_masks(own: bool) -> None:
    """Within four standard errors, for dropout that the method adds and for that of the model's own layers."""
    samples, rate = 1000, 0.3
    model = net(dropout=rate if own else 0.0)
    method = MCDropout(model, dropout=0.0 if own else rate, samples=samples)
    mean, std = enumerated(model, rate)
    assert std.max() > 0.1
    gap = np.abs(method.predict(X, how="mean").numpy() - mean)
    assert (gap <= 4 * std / math.sqrt(samples) + 1e-12).all()
    np.testing.assert_allclose(method.std(X), std, rtol=0.15, atol=2e-3)
    assert torch.equal(method.predict(X), method.predict(X, how="mean").argmax(-1))


def test_scaled_weights_are_the_geometric_mean_of_one_softmax_layer() -> None:
    """Plain dropout on the input of a softmax layer: weights times the keep probability, exactly."""
    rate = 0.25
    weight, bias = net().get_parameter("net.2.weight").detach().numpy(), np.array([0.1, -0.2, 0.3])
    hidden = np.abs(np.random.default_rng(0).normal(size=4))
    log = np.zeros(3)
    for mask in itertools.product((0.0, 1.0), repeat=4):
        probability = math.prod(1 - rate if kept else rate for kept in mask)
        log += probability * np.log(softmax(weight @ (hidden * np.array(mask)) + bias))
    layer = nn.Sequential(nn.Dropout(rate), nn.Linear(4, 3)).double().eval()
    with torch.no_grad():  # torch's dropout is the inverted one, so its whole network has weights scaled by the rest
        layer[1].weight.copy_(torch.tensor((1 - rate) * weight))  # type: ignore[operator]
        layer[1].bias.copy_(torch.tensor(bias))  # type: ignore[operator]
        shares = layer(torch.tensor(hidden)).softmax(-1)
    np.testing.assert_allclose(shares, np.exp(log) / np.exp(log).sum(), rtol=1e-12)


def test_one_mask_holds_for_all_examples_and_all_calls() -> None:
    method = MCDropout(net(hidden=(16, 16)), dropout=0.5, samples=20)
    assert torch.equal(method.predictions(X), method.predictions(X))
    torch.testing.assert_close(method.predictions(X[2:3]), method.predictions(X)[:, 2:3], rtol=1e-12, atol=0)
    assert method.std(X).min() > 0
    assert method.predictions(X).unique(dim=0).shape[0] == 20


def test_of_regression_the_prediction_is_the_mean_and_samples_vary_around_it() -> None:
    method = MCDropout(net(classes=None), dropout=0.3, samples=50)
    torch.testing.assert_close(method.predict(X), method.predictions(X).mean(0))
    many = X[:1].expand(20_000, 2)
    drawn = method.predict(many, how="sample", generator=torch.Generator().manual_seed(0))
    variance = 1 + method.std(X[:1]).square()  # unit variance around each network's mean
    torch.testing.assert_close(drawn.var(0), variance[0], rtol=0.05, atol=0)
    batch = Labeled(X, torch.zeros(5, 2, dtype=torch.float64))
    expected = method.predict(X).square().sum(-1).mean()
    assert method.eval().loss(batch)["mse"].item() == pytest.approx(expected.item())
    assert method.metrics(batch)["mse"].item() == pytest.approx(expected.item())


def test_channels_are_dropped_whole_where_the_layer_does_so() -> None:
    class Body(MLP):
        def __init__(self) -> None:
            super().__init__(features=16, classes=2, hidden=())
            self.drop = nn.Dropout2d(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = self.drop(x)
            return super().forward(self.seen)

    method = MCDropout(Body(), dropout=0.0, samples=1)
    method.predictions(torch.ones(3, 4, 2, 2))
    kept = method.model.seen
    assert isinstance(kept, torch.Tensor)
    assert torch.equal(kept, kept[:1, :, :1, :1].expand_as(kept))
    assert set(kept.unique().tolist()) == {0.0, 2.0}


def test_training_drops_and_the_null_setting_is_the_plain_model() -> None:
    ends = []
    for wrap in (lambda it: it, lambda it: MCDropout(it, dropout=0.0, samples=0), lambda it: MCDropout(it)):
        torch.manual_seed(1)
        model = MLP(features=2, classes=2, hidden=(16,), dropout=0.1)
        dc.fit(wrap(model), dc.load_data("moons"), steps=20, batch_size=32, quiet=True)
        ends.append(copy.deepcopy(model.state_dict()))
    plain, idle, dropped = ends
    assert all(torch.equal(plain[name], idle[name]) for name in plain)
    assert not torch.equal(plain["net.0.weight"], dropped["net.0.weight"])


def test_it_also_wraps_a_convolutional_network() -> None:
    model, batch = CNN.example()
    method = MCDropout(model, samples=4)
    shares = method.predict(batch.x, how="mean")
    torch.testing.assert_close(shares.sum(-1), torch.ones(len(batch)))
    assert method.std(batch.x).max() > 0


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="probability to drop a unit"):
        MCDropout(net(), dropout=1.0)
    with pytest.raises(UsageError, match="mlp drops nothing; give mc_dropout a dropout above 0"):
        MCDropout(net(), dropout=0.0)
    with pytest.raises(UsageError, match="has no hidden layer"):
        MCDropout(net(hidden=()))
    with pytest.raises(UsageError, match="averages predictions; Toy has no predict"):
        MCDropout(Toy(2))
    with pytest.raises(UsageError, match="samples must be at least 0"):
        MCDropout(net(), samples=-1)
