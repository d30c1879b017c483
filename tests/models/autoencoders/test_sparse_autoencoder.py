"""The penalties are those of torch's distributions, and most units of a trained code are zero."""

from typing import Any

import pytest
import torch
from torch.distributions import Bernoulli, Laplace, kl_divergence

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.autoencoders.sparse_autoencoder import SparseAutoencoder


def test_the_l1_penalty_is_the_laplace_prior_of_the_code() -> None:
    model = SparseAutoencoder(features=4, latent=7, strength=0.3).double()
    batch = Batch(torch.randn(9, 4, dtype=torch.float64))
    z = model.encode(batch.x)
    prior = Laplace(torch.zeros(7, dtype=torch.float64), 1 / torch.tensor(0.3, dtype=torch.float64))
    constant = prior.log_prob(torch.zeros(7, dtype=torch.float64)).sum()
    torch.testing.assert_close(model.loss(batch)["sparsity"], constant - prior.log_prob(z).sum(-1).mean())
    assert (z == 0).any()


def test_the_kl_penalty_is_that_of_bernoulli_variables() -> None:
    model = SparseAutoencoder(features=4, latent=7, penalty="kl", strength=0.3, rho=0.1).double()
    batch = Batch(3 * torch.randn(9, 4, dtype=torch.float64))
    activity = model.encode(batch.x).mean(0)
    wanted = kl_divergence(Bernoulli(torch.full_like(activity, 0.1)), Bernoulli(activity)).sum()
    torch.testing.assert_close(model.loss(batch)["sparsity"], 0.3 * wanted)


def test_the_kl_penalty_stays_finite_where_units_are_off() -> None:
    model: Any = SparseAutoencoder(features=1, latent=2, penalty="kl")
    with torch.no_grad():
        model.encoder[0].bias.fill_(-1e4)
    assert model.loss(Batch(torch.zeros(3, 1)))["sparsity"].isfinite()


@pytest.mark.slow
def test_a_stronger_penalty_leaves_fewer_units() -> None:
    data = dc.load_data("digits")
    active, errors = [], []
    for strength in (1e-3, 0.3):
        torch.manual_seed(0)
        model: Any = SparseAutoencoder(features=64, latent=64, strength=strength)
        dc.fit(model, data, epochs=60, quiet=True, evaluate=False)
        active.append(model.metrics(data.split("valid"))["active"].item())
        errors.append(model.loss(data.split("valid"))["reconstruction"].item())
        assert model.decoder[0].weight.norm(dim=0).max() < 1 + 1e-5
    assert active[1] < 0.6 * active[0], active
    assert errors[0] < errors[1] < data.split("valid").x.flatten(1).var(0).sum().item(), errors


@pytest.mark.parametrize("wrong", [{"penalty": "l0"}, {"strength": -1.0}, {"rho": 1.0}])
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        SparseAutoencoder(features=4, **wrong)
