"""On a Gaussian the best denoiser is known, and its step is the score of the smoothed density."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from deepcanon.core import Batch, UsageError
from deepcanon.models.autoencoders.denoising_autoencoder import DenoisingAutoencoder

SIGMA = 0.7
MEAN = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
FACTOR = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.3, 0.2, 1.5]], dtype=torch.float64)
COVARIANCE = FACTOR @ FACTOR.T


@pytest.fixture
def best() -> Any:
    """The linear autoencoder whose reconstruction is the posterior mean m + S (S + sigma^2)^-1 (x - m)."""
    model: Any = DenoisingAutoencoder(features=3, latent=3, hidden=(), sigma=SIGMA).double()
    gain = COVARIANCE @ torch.linalg.inv(COVARIANCE + SIGMA**2 * torch.eye(3, dtype=torch.float64))
    with torch.no_grad():
        model.encoder[0].weight.copy_(gain)
        model.encoder[0].bias.copy_(MEAN - gain @ MEAN)
        model.decoder[0].weight.copy_(torch.eye(3))
        model.decoder[0].bias.zero_()
    return model


def test_the_score_is_that_of_the_smoothed_gaussian(best: DenoisingAutoencoder) -> None:
    x = torch.randn(16, 3, dtype=torch.float64, requires_grad=True)
    smoothed = MultivariateNormal(MEAN, COVARIANCE + SIGMA**2 * torch.eye(3, dtype=torch.float64))
    (wanted,) = torch.autograd.grad(smoothed.log_prob(x).sum(), x)
    torch.testing.assert_close(best.score(x), wanted, rtol=0, atol=1e-12)
    (sharp,) = torch.autograd.grad(MultivariateNormal(MEAN, COVARIANCE).log_prob(x).sum(), x)
    assert (best.score(x) - sharp).abs().max() > 0.1  # it is not the score of the data themselves


def test_the_loss_is_stationary_there(best: DenoisingAutoencoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expected loss depends on the first two moments alone, which points along the axes have exactly."""
    steps = 3**0.5 * torch.cat([torch.eye(3), -torch.eye(3)]).double()
    x = (MEAN + steps @ FACTOR.T).repeat_interleave(6, 0)
    noise = SIGMA * steps.repeat(6, 1)
    monkeypatch.setattr(best, "corrupt", lambda clean: clean + noise)
    loss = best.loss(Batch(x))["reconstruction"]
    for gradient in torch.autograd.grad(loss, list(best.parameters())):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-12)


def test_the_gallery_shows_the_noise_and_what_it_leaves(best: DenoisingAutoencoder) -> None:
    x = MultivariateNormal(MEAN, COVARIANCE).sample(torch.Size([4000]))
    rows = best.gallery(x, generator=torch.Generator().manual_seed(0))
    errors: dict[str, Tensor] = {name: (row - rows["clean"]).square().mean(0) for name, row in rows.items()}
    assert list(rows) == ["clean", "noisy", "denoised"]
    torch.testing.assert_close(errors["noisy"].mean().item(), SIGMA**2, rtol=0.05, atol=0)
    assert (errors["denoised"] < errors["noisy"]).all()


def test_noise_is_needed() -> None:
    with pytest.raises(UsageError, match="sigma must be positive"):
        DenoisingAutoencoder(features=3, sigma=0.0)
