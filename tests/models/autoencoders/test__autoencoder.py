"""Convolutional forms: with the same weights they are the convolutional autoencoder, and they keep their laws."""

from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import Batch, UsageError

SIZES = {"features": 30, "channels": 1, "height": 5, "width": 6}


@pytest.mark.parametrize("name", ["denoising_autoencoder", "sparse_autoencoder"])
def test_with_the_same_weights_it_is_the_convolutional_autoencoder(name: str) -> None:
    torch.manual_seed(0)
    model: Any = dc.find(name)(**SIZES, latent=3, hidden=(), convolutions=(4, 8)).double()
    twin: Any = dc.find("convolutional_autoencoder")(channels=1, height=5, width=6, latent=3, hidden=(4, 8)).double()
    values = [p.detach() for part in (model.encoder, model.decoder) for p in part.parameters()]
    others = [p for part in (twin.encoder, twin.decoder) for p in part.parameters()]
    assert [p.shape for p in values] == [p.shape for p in others]
    with torch.no_grad():
        for value, other in zip(values, others, strict=True):
            other.copy_(value)
    x = torch.randn(7, 1, 5, 6, dtype=torch.float64)
    code = twin.encode(x)
    torch.testing.assert_close(model.encode(x), code.relu() if name == "sparse_autoencoder" else code)
    z = torch.randn(2, 7, 3, dtype=torch.float64)
    torch.testing.assert_close(model.decode(z), twin.decode(z))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["denoising_autoencoder", "sparse_autoencoder"])
def test_the_laws_hold_with_convolutions(name: str) -> None:
    torch.manual_seed(0)
    weak = {"strength": 0.01} if name == "sparse_autoencoder" else {}  # so that two examples can be learned by heart
    model: Any = dc.find(name)(**SIZES, latent=8, hidden=(12,), convolutions=(4,), **weak)
    batch = Batch(torch.randn(24, 1, 5, 6))
    for kind in ("contract", "autoencoder"):
        found = laws.check((model, batch), kind)
        assert all(outcome.holds for outcome in found), laws.report(found)


def test_convolutions_need_images() -> None:
    with pytest.raises(UsageError, match="convolutions need images"):
        dc.find("denoising_autoencoder")(features=30, convolutions=(4,))
