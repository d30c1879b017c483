"""One threshold unit is 2-means, several are the additive code that an exhaustive search finds."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.autoencoders.threshold_autoencoder import ThresholdAutoencoder


def fitted(x: Tensor, latent: int, batch_size: int = 1024) -> ThresholdAutoencoder:
    model = ThresholdAutoencoder(features=x.shape[1], latent=latent)
    parts = [Batch(part) for part in x.split(batch_size)]
    model.prepare(parts)
    for _ in range(30):
        for part in parts:
            model.absorb(part)
    return model


def error(model: ThresholdAutoencoder, x: Tensor) -> float:
    return model.loss(Batch(x))["reconstruction"].item()


def test_one_unit_is_two_means() -> None:
    torch.manual_seed(0)
    x = torch.cat([torch.randn(60, 3), torch.randn(40, 3) + torch.tensor([3.0, 1.0, 0.0])]).double()
    model, peer = fitted(x, 1), KMeans(2, n_init=10, random_state=0).fit(x.numpy())
    centers = model.decode(torch.tensor([[0.0], [1.0]], dtype=torch.float64)).numpy()
    order = np.argsort(centers[:, 0]), np.argsort(peer.cluster_centers_[:, 0])
    np.testing.assert_allclose(centers[order[0]], peer.cluster_centers_[order[1]], rtol=0, atol=1e-6)
    assert error(model, x) == pytest.approx(peer.inertia_ / len(x), rel=1e-8)


def test_one_unit_is_a_threshold_on_a_line() -> None:
    x = torch.randn(50, 3, dtype=torch.float64)
    model = fitted(x, 1)
    b, w = model.weights
    torch.testing.assert_close(model.encode(x)[:, 0], (x @ w > w @ b + w @ w / 2).to(x.dtype))


@pytest.mark.parametrize("seed", range(3))
def test_two_units_reach_the_optimum_of_an_exhaustive_search(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    w = torch.tensor([[4.0, 0.0], [1.0, 3.0]], dtype=torch.float64)
    codes = torch.tensor(list(product((0.0, 1.0), repeat=2)), dtype=torch.float64)
    x = (codes @ w).repeat(2, 1)[:7] + 0.3 * torch.randn(7, 2, generator=random, dtype=torch.float64)
    every = torch.tensor(list(product(range(4), repeat=7)))  # all ways to give each example one of the four codes
    design = torch.cat([torch.ones(len(every), 7, 1, dtype=torch.float64), codes[every]], -1)
    rest = x - design @ (torch.linalg.pinv(design) @ x)
    assert error(fitted(x, 2), x) == pytest.approx(rest.square().sum(-1).mean(-1).min().item(), rel=1e-9)


def test_the_error_never_rises_and_batches_do_not_matter() -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 4, dtype=torch.float64)
    model = ThresholdAutoencoder(features=4, latent=3)
    model.prepare([Batch(x)])
    errors = [model.absorb(Batch(x))["reconstruction"].item() for _ in range(30)]
    assert all(after <= before + 1e-12 for before, after in pairwise(errors))
    torch.testing.assert_close(fitted(x, 3, batch_size=64).weights, model.weights, rtol=0, atol=1e-9)


def test_examples_that_are_all_the_same_have_no_error() -> None:
    x = torch.ones(5, 2, dtype=torch.float64)
    assert error(fitted(x, 2), x) < 1e-24


@pytest.mark.slow
def test_more_units_describe_digits_better() -> None:
    data = dc.load_data("digits")
    errors = [error(fitted(data.train.x.flatten(1), latent), data.split("valid").x) for latent in (1, 4, 8)]
    assert errors == sorted(errors, reverse=True)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 12"):
        ThresholdAutoencoder(features=4, latent=13)
    with pytest.raises(DataError, match="2 or more"):
        ThresholdAutoencoder(features=4).prepare([Batch(torch.zeros(1, 4))])
