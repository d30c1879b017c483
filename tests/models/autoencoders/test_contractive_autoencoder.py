"""The penalty is the squared norm of the encoder's Jacobian, and contracts it."""

from typing import Any

import pytest
import torch
from torch.func import jacrev, vmap

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.autoencoders.contractive_autoencoder import ContractiveAutoencoder


@pytest.mark.parametrize("activation", ["sigmoid", "tanh"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_penalty_is_the_norm_of_the_explicit_jacobian(activation: Any, tied: bool) -> None:
    model = ContractiveAutoencoder(features=5, latent=7, strength=0.2, activation=activation, tied=tied).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    jacobian = vmap(jacrev(lambda row: model.encode(row[None])[0]))(x)
    wanted = jacobian.square().sum((1, 2))
    torch.testing.assert_close(model.contraction(x), wanted, rtol=1e-12, atol=0)
    torch.testing.assert_close(model.loss(Batch(x))["contraction"], 0.2 * wanted.mean(), rtol=1e-12, atol=0)


@pytest.mark.slow
def test_a_stronger_penalty_contracts_more() -> None:
    data = dc.load_data("digits")
    found = []
    for strength in (1e-4, 1.0):
        torch.manual_seed(0)
        model = ContractiveAutoencoder(features=64, latent=32, strength=strength)
        dc.fit(model, data, epochs=15, quiet=True, evaluate=False)
        found.append(model.contraction(data.split("valid").x).mean().item())
    assert found[1] < 0.7 * found[0], found


@pytest.mark.parametrize("wrong", [{"activation": "relu"}, {"strength": 0.0}])
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ContractiveAutoencoder(features=4, **wrong)
