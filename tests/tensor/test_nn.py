"""A network from scratch: the same path as torch's, and what it reaches on digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import deepcanon.tensor as dt
from deepcanon.data import load_data
from deepcanon.tensor.nn import SGD, Adam, Embedding, Linear, Sequential, fit, score


def digits(part: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    batch: Any = getattr(load_data("digits"), part)
    return batch.x.flatten(1).double().numpy(), batch.y.numpy()


@pytest.fixture
def network() -> Sequential:
    generator = np.random.default_rng(0)
    return Sequential(Linear(64, 128, generator), dt.relu, Linear(128, 10, generator))


def test_two_hundred_steps_on_digits_equal_torchs(network: Sequential) -> None:
    x, y = digits("train")
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).double()
    with torch.no_grad():
        for p, q in zip(net.parameters(), network.parameters(), strict=True):
            p.copy_(torch.tensor(q.numpy()))
    losses = fit(
        network, Adam(network.parameters()), x, y, epochs=5, batch_size=32, generator=np.random.default_rng(1)
    )[:200]
    optimizer, generator = torch.optim.Adam(net.parameters()), np.random.default_rng(1)
    theirs: list[float] = []
    while len(theirs) < 200:
        for rows in np.split(order := generator.permutation(len(x)), range(32, len(order), 32)):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(torch.tensor(x[rows])), torch.tensor(y[rows]))
            loss.backward()
            optimizer.step()
            theirs.append(loss.item())
    np.testing.assert_allclose(losses, theirs[:200], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_it_recognizes_digits(network: Sequential) -> None:
    optimizer = Adam(network.parameters())
    fit(network, optimizer, *digits("train"), epochs=30, batch_size=32, generator=np.random.default_rng(0))
    assert score(network, *digits("test")) >= 0.965


@pytest.mark.parametrize(
    "options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}], ids=["plain", "momentum", "nesterov"]
)
def test_descent_equals_torchs(options: dict[str, Any]) -> None:
    start, target = np.array([1.0, -2.0]), np.array([3.0, 0.5])
    w, there = dt.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours, theirs = SGD([w], 0.1, **options), torch.optim.SGD([there], 0.1, **options)
    for _ in range(20):
        ours.step(dt.gradients(((w - target) ** 4).sum() * 0.1, [w]))
        theirs.zero_grad()
        (((there - torch.tensor(target)) ** 4).sum() * 0.1).backward()
        theirs.step()
    np.testing.assert_allclose(w.numpy(), there.detach().numpy(), rtol=1e-12)


def test_parameters_have_paths_and_are_loaded_by_them(network: Sequential) -> None:
    names = [name for name, _ in network.named_parameters()]
    assert names == ["steps.0.weight", "steps.0.bias", "steps.2.weight", "steps.2.bias"]
    values = {name: np.full(p.shape, 2.0) for name, p in network.named_parameters()}
    network.load(values)
    assert all((p.numpy() == 2).all() for p in network.parameters())
    with pytest.raises(ValueError, match="expected values for"):
        network.load({"steps.0.weight": np.ones(1)})


def test_embedding_and_dropout() -> None:
    generator = np.random.default_rng(0)
    table = Embedding(5, 3, generator)
    assert table(np.array([[1, 1]])).tolist() == [[table.weight[1].tolist()] * 2]
    x = dt.dropout(dt.ones((200, 200)), 0.25, generator)
    assert set(np.unique(x.numpy())) == {0.0, 1 / 0.75}
    assert x.mean().item() == pytest.approx(1.0, abs=0.02)
