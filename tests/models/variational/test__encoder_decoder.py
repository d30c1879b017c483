"""Convolutional encoders and decoders: every variational model keeps its laws with them, and images their shape."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import Batch, Labeled, UsageError

VARIATIONAL = [
    "vae",
    "iwae",
    "full_covariance_vae",
    "conditional_vae",
    "hierarchical_vae",
    "markov_hierarchical_vae",
    "flow_vae",
]
OWN: dict[str, dict[str, Any]] = {
    "conditional_vae": {"classes": 3},
    "hierarchical_vae": {"latents": (1, 1)},
    "markov_hierarchical_vae": {"latents": (1, 1)},
    "flow_vae": {"latent": 2, "transforms": 2, "summary": 3},
}


def convolutional(name: str, shape: tuple[int, int, int], **arguments: Any) -> tuple[Any, Any]:
    """A small model with two convolutions, and images for it."""
    torch.manual_seed(0)
    channels, height, width = shape
    own = {"latent": 2} if name not in OWN or "classes" in OWN[name] else {}
    model = dc.find(name)(
        features=channels * height * width,
        channels=channels,
        height=height,
        width=width,
        **{"hidden": (6,), "convolutions": (3, 4), **own, **OWN.get(name, {}), **arguments},
    )
    x = torch.randn(24, *shape, generator=Generator().manual_seed(0))
    return model, Labeled(x, torch.arange(24) % 3) if name == "conditional_vae" else Batch(x)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIATIONAL)
def test_the_laws_hold_with_convolutions(name: str) -> None:
    for kind in ("contract", "latent"):
        found = laws.check(convolutional(name, (1, 3, 5)), kind)
        assert all(outcome.holds for outcome in found), laws.report(found)


@pytest.mark.parametrize("shape", [(1, 8, 8), (2, 7, 4), (3, 1, 5)])
@pytest.mark.parametrize("name", VARIATIONAL)
def test_images_of_any_sides_keep_their_shape(name: str, shape: tuple[int, int, int]) -> None:
    model, batch = convolutional(name, shape)
    bound = model.given(batch.y) if isinstance(batch, Labeled) else model
    assert bound.reconstruct(batch.x).shape == batch.x.shape
    assert bound.log_prob(batch.x, samples=3).shape == (24,)
    assert bound.sample(24).shape == (24, batch.x[0].numel())
    torch.stack(list(model.loss(batch).values())).sum().backward()
    convolutions = [part for part in model.modules() if isinstance(part, torch.nn.Conv2d | torch.nn.ConvTranspose2d)]
    assert len(convolutions) == 4
    assert all(part.weight.grad is not None and part.weight.grad.abs().sum() > 0 for part in convolutions)


@pytest.mark.parametrize("name", ["vae", "iwae", "full_covariance_vae", "flow_vae"])
def test_without_activations_the_evidence_is_that_of_a_gaussian(name: str) -> None:
    """Then the decoder is affine, x = W z + b, however it is written: p(x) = N(b, W W' + s^2 I)."""
    model, batch = convolutional(name, (2, 3, 2), activation="identity", hidden=())
    model, x = model.double(), batch.x.double()[:8]
    with torch.no_grad():
        model.decoder.likelihood.log_scale.fill_(0.0)
        shift: Tensor = model.decoder(torch.zeros(2, dtype=torch.float64))
        weight = (model.decoder(torch.eye(2, dtype=torch.float64)) - shift).T
        noise = model.decoder.likelihood.scale.square() * torch.eye(12, dtype=torch.float64)
        exact = MultivariateNormal(shift, weight @ weight.T + noise).log_prob(x.flatten(1))
        draws = torch.stack([model.log_prob(x, samples=1500, generator=Generator().manual_seed(i)) for i in range(8)])
        loose = model.log_prob(x.repeat(200, 1, 1, 1), generator=Generator().manual_seed(0)).reshape(200, 8)
    assert ((draws.mean(0) - exact).abs() < 5 * draws.std(0) / 8**0.5 + 2e-3).all()
    assert (loose.mean(0) < exact + 4 * loose.std(0) / 200**0.5).all()


def test_what_are_no_images_of_that_size_is_refused_in_a_sentence() -> None:
    vae = dc.find("vae")
    with pytest.raises(UsageError, match="convolutions need images: give channels, height and width"):
        vae(features=64, convolutions=(8,))
    with pytest.raises(UsageError, match=r"images of 1 x 8 x 9 .* do not have 64 features"):
        vae(features=64, channels=1, height=8, width=9, convolutions=(8,))
    with pytest.raises(UsageError, match="convolutions must be at least 1"):
        vae(features=64, channels=1, height=8, width=8, convolutions=(0,))
    with pytest.raises(UsageError, match="convolutions need images"):
        dc.Run.train("vae:convolutions=8", "moons", epochs=1, quiet=True)


def test_a_convolutional_run_is_trained_and_loaded_by_name(tmp_path: Path) -> None:
    dc.Run.train("vae:convolutions=4/8,hidden=16", "digits", out=tmp_path / "run", epochs=1, quiet=True, pictures=False)
    model: Any = dc.load(tmp_path / "run")
    assert (model.hparams["height"], model.hparams["convolutions"]) == (8, (4, 8))
    x = torch.rand(3, 1, 8, 8)
    assert model.reconstruct(x).shape == (3, 1, 8, 8)
    assert model.log_prob(x).isfinite().all()
