"""t-SNE: probabilities, divergence and gradient are those of scikit-learn's formulas; digits have their known map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import squareform
from sklearn.manifold import trustworthiness
from sklearn.manifold._t_sne import _joint_probabilities, _kl_divergence
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.words import _neighbor_pairs as pairs
from deepcanon.models.words.tsne import TSNE


def cloud(n: int = 80, features: int = 6, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, features, generator=generator).double() + 3 * (torch.arange(n) % 4).unsqueeze(1)


def mapped(x: Tensor, perplexity: float = 12.0) -> TSNE:
    """A model that knows its data, with points far from their beginning."""
    model = TSNE(features=x.shape[1], examples=len(x), perplexity=perplexity).double()
    model.prepare([Batch(x)])
    model.points.data = torch.randn(len(x), 2, generator=torch.Generator().manual_seed(1)).double()
    return model


def test_probabilities_are_those_of_scikit_learn() -> None:
    x = cloud()
    squares = torch.cdist(x, x).square().float().numpy()
    theirs = torch.tensor(squareform(_joint_probabilities(squares, 12.0, 0)))
    ours = pairs.DensePairs(x, 12.0).p
    assert float(ours.sum()) == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("perplexity", [2.0, 15.0, 70.0])
def test_every_example_has_the_perplexity(perplexity: float) -> None:
    x = cloud()
    squares = torch.cdist(x, x).square().fill_diagonal_(torch.inf)
    p = pairs.conditional_probabilities(squares, perplexity)
    torch.testing.assert_close(
        torch.special.entr(p).sum(1).exp(), torch.full((80,), perplexity).double(), rtol=2e-5, atol=0
    )


@pytest.mark.parametrize("exaggeration", [1.0, 12.0])
def test_divergence_and_gradient_are_those_of_scikit_learn(exaggeration: float) -> None:
    x = cloud()
    model = mapped(x)
    p = squareform(model._pairs.p.numpy(), checks=False)  # type: ignore[attr-defined]
    points = model.points.detach().numpy().ravel()
    divergence, gradient = _kl_divergence(points, p * exaggeration, 1, 80, 2)
    model.gradient(Batch(x), exaggeration)
    assert model.points.grad is not None
    np.testing.assert_allclose(model.points.grad.numpy().ravel(), gradient, rtol=1e-9, atol=1e-12)
    if exaggeration == 1:
        assert float(model.loss(Batch(x))["kl"].detach()) == pytest.approx(divergence, rel=1e-9)


@pytest.mark.parametrize("exaggeration", [1.0, 4.0])
@pytest.mark.parametrize("kind", [pairs.DensePairs, pairs.SparsePairs])
def test_parts_of_the_data_have_gradients_that_add_up(kind: type[Any], exaggeration: float) -> None:
    x = cloud()
    model = mapped(x)
    model._known, model._like = kind(x, 12.0), (x.device, x.dtype, model.data._version)
    model.gradient(Batch(x), exaggeration)
    whole = model.points.grad
    assert whole is not None
    parts = []
    for index in (torch.arange(30), torch.arange(30, 80)):
        model.gradient(Batch(x).select(index), exaggeration)
        assert model.points.grad is not None
        parts.append(model.points.grad * len(index) / 80)
    loose = kind is pairs.SparsePairs  # the tree sums up what is far away, in single precision
    torch.testing.assert_close(sum(parts), whole, atol=5e-3 if loose else 1e-12, rtol=0)


@pytest.fixture(scope="module")
def digits() -> tuple[TSNE, Tensor, Tensor]:
    """The map of some digits, and others."""
    x = dc.load_data("digits").train.x.flatten(1)
    model = TSNE(features=64, examples=300)
    dc.fit(model, dc.from_tensors(x[:300]), quiet=True, epochs=200, evaluate=False)
    return model, x[:300], x[300:450]


@pytest.mark.slow
def test_new_examples_are_put_next_to_their_neighbors(digits: tuple[TSNE, Tensor, Tensor]) -> None:
    model, x, new = digits
    assert trustworthiness(x.numpy(), model.points.detach().numpy()) > 0.97
    assert torch.equal(model.encode(x[:20]), model.points[:20].detach())
    places = model.encode(new)
    both = np.concatenate([x.numpy(), new.numpy()]), np.concatenate([model.points.detach().numpy(), places.numpy()])
    assert trustworthiness(*both) > 0.95
    y, cost = model._placed(new)
    for shift in (torch.tensor([0.3, 0.0]), torch.tensor([0.0, -0.3])):  # each is at an optimum
        w = 1 / (1 + torch.cdist(y + shift, model.points).square())
        p = pairs.conditional_probabilities(torch.cdist(new, x).square(), 30.0)
        moved = (torch.special.xlogy(p, p) - p * (w / w.sum(1, keepdim=True)).log()).sum(1)
        assert float((moved > cost.detach() - 1e-3).double().mean()) > 0.95


def test_mistakes_are_named() -> None:
    with pytest.raises(UsageError, match=r"below those that an example has, 9 \(got 30.0\)"):
        TSNE(features=3, examples=10)
    with pytest.raises(UsageError, match="a map has at most as many dimensions as the data, 3"):
        TSNE(features=3, examples=100, latent=4)
    with pytest.raises(UsageError, match="exaggeration is a factor"):
        TSNE(features=3, examples=100, exaggeration=0.5)
    model, batch = TSNE.example()
    with pytest.raises(DataError, match="a point for each of 24 training examples, got 10"):
        model.prepare([batch.select(torch.arange(10))])
    with pytest.raises(DataError, match="these are others"):
        model.gradient(Batch(batch.x + 1))
