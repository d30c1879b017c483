"""With the exact velocity of Gaussian codes noise goes to their distribution; learned, it goes to that of the data."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, Descend, Labeled, UsageError, methods_of
from deepcanon.core.toy_autoencoder import ToyAutoencoder
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.losses import energy_distance
from deepcanon.methods.latent_diffusion import DRAWS, TIMES, LatentDiffusion
from deepcanon.models.variational.conditional_vae import ConditionalVAE
from deepcanon.models.variational.vae import VAE


class Exact(nn.Module):
    """The velocity E[cos φ ε - sin φ c | y] where codes are Gaussian with this covariance."""

    def __init__(self, covariance: Tensor) -> None:
        super().__init__()
        self.covariance = covariance

    def forward(self, y: Tensor, times: Tensor) -> Tensor:
        angle = (times * math.pi / (2 * TIMES)).view(-1, 1, 1)
        eye = torch.eye(2, dtype=y.dtype)
        mixed = angle.cos() ** 2 * self.covariance + angle.sin() ** 2 * eye
        gain = angle.cos() * angle.sin() * torch.linalg.solve(mixed, eye - self.covariance)
        moved: Tensor = (y.unsqueeze(1) @ gain).squeeze(1)
        return moved


def test_noise_is_carried_to_gaussian_codes_and_decoded() -> None:
    torch.manual_seed(0)
    method = LatentDiffusion(ToyAutoencoder(features=3, latent=2).double(), share=1.0, hidden=(8,))
    covariance = torch.tensor([[1.0, 0.6], [0.6, 1.0]], dtype=torch.float64)
    method.averaged = Exact(covariance)  # type: ignore[assignment]
    method.standard.running_mean = torch.tensor([2.0, -1.0], dtype=torch.float64)
    method.standard.running_var = torch.tensor([4.0, 9.0], dtype=torch.float64)
    found = method.eval().sample(7, generator=torch.Generator().manual_seed(1))  # type: ignore[operator]
    noise = torch.randn(7, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values, vectors = torch.linalg.eigh(covariance)
    codes = noise @ (vectors * values.sqrt()) @ vectors.T  # the flow of a Gaussian is the root of its covariance
    codes = codes * torch.tensor([4.0, 9.0], dtype=torch.float64).sqrt() + torch.tensor([2.0, -1.0])
    wanted = method.model.decode(codes)  # type: ignore[operator]
    torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-3)  # the steps of the solver have errors of 1e-5


def test_the_exact_velocity_has_the_least_loss() -> None:
    """Of two standard normal codes it is 0 everywhere, and the loss the variance of cos φ ε - sin φ c, which is 2."""
    torch.manual_seed(0)
    method = LatentDiffusion(ToyAutoencoder(features=2, latent=2).double(), share=1.0, hidden=(8,)).eval()
    with torch.no_grad():
        method.model.encoder.weight.copy_(torch.eye(2))  # type: ignore[union-attr, operator]
    x = torch.randn(4000, 2, dtype=torch.float64)
    losses = {}
    eye = torch.eye(2, dtype=torch.float64)
    for name, net in (("exact", Exact(eye)), ("other", Exact(0.25 * eye))):
        method.averaged = net  # type: ignore[assignment]
        torch.manual_seed(1)
        losses[name] = method.denoising(Batch(x))["denoising"].item()
    assert losses["exact"] == pytest.approx(2.0, rel=0.05)  # of standard normal codes the best velocity is 0
    assert losses["other"] > losses["exact"] + 0.05


def test_the_autoencoder_learns_first_and_stays_as_it_is() -> None:
    method, batch = LatentDiffusion.example()
    first, second = method.turns()
    assert isinstance(first, Descend)
    assert isinstance(second, Descend)
    assert [*first.share, *second.share] == pytest.approx([0.0, 0.4, 0.4, 1.0])
    inside = {id(parameter) for parameter in method.model.parameters()}
    assert {id(parameter) for parameter in first.parameters} == inside
    assert not inside & {id(parameter) for parameter in second.parameters}
    (only,) = LatentDiffusion(ToyAutoencoder(4, 2), share=1.0).turns()
    assert only.name == "diffusion"
    assert "sample" in methods_of(method)
    assert "sample" not in methods_of(LatentDiffusion(ToyAutoencoder(4, 2), share=0.0))
    assert len(batch) == 32


def test_around_a_vae_it_samples_by_itself_and_has_no_likelihood() -> None:
    vae = VAE(features=4, latent=2)
    method = LatentDiffusion(vae, share=1.0, hidden=(8,)).eval()
    assert "log_prob" in methods_of(vae)
    assert "log_prob" not in methods_of(method)
    assert method.sample(3).shape == (3, 4)  # type: ignore[operator]


@pytest.mark.slow
def test_samples_are_of_both_clusters_of_the_data() -> None:
    """Codes of two clusters, which no single Gaussian has: samples come nearer to the data than that Gaussian."""
    random = torch.Generator().manual_seed(0)
    code = torch.randn(2000, 2, generator=random) * 0.2 + torch.where(
        torch.rand(2000, 1, generator=random) < 0.5, torch.tensor([1.0, 1.0]), torch.tensor([-1.0, 0.5])
    )
    x = code @ torch.randn(2, 5, generator=random)
    torch.manual_seed(0)
    method = LatentDiffusion(ToyAutoencoder(features=5, latent=2), hidden=(64, 64), average=0.98)
    dc.fit(method, dc.data.of(x), steps=900, lr=3e-3, batch_size=256, seed=0, quiet=True, evaluate=False)
    drawn = method.eval().sample(1000, generator=random)  # type: ignore[operator]
    _, scales, axes = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    gaussian = x.mean(0) + torch.randn(1000, 5, generator=random) * scales / len(x) ** 0.5 @ axes
    assert energy_distance(drawn, x) < 0.25 * energy_distance(gaussian, x)


class Still(nn.Module):
    """No velocity, so that codes are the noise itself; it keeps the classes that it is told."""

    def forward(self, y: Tensor, times: Tensor, labels: Tensor) -> Tensor:
        self.labels = labels
        return torch.zeros_like(y)


def test_around_a_class_conditional_autoencoder_codes_of_a_class_are_drawn_and_decoded_as_such() -> None:
    torch.manual_seed(0)
    method: Any = LatentDiffusion(ConditionalVAE(3, classes=3, latent=2, hidden=(4,)).double(), hidden=(8,)).eval()
    asked = torch.tensor([2, 0, 1, 1, 2])
    method.averaged = Still()
    found = method.sample(5, context=asked, generator=torch.Generator().manual_seed(1))
    assert torch.equal(method.averaged.labels, asked)
    noise = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = method.model.given(asked).decode(noise * math.sqrt(1 + method.standard.eps)).mean
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        method.given(asked).sample(5, generator=torch.Generator().manual_seed(1)), wanted, rtol=0, atol=0
    )
    with pytest.raises(UsageError, match="is conditional: give classes"):
        method.sample(5)
    with pytest.raises(UsageError, match="takes no context"):
        LatentDiffusion(ToyAutoencoder(4, 2)).sample(3, context=1)  # type: ignore[operator]


def test_the_network_learns_the_codes_of_each_class() -> None:
    """A step of the loss tells it the labels of the batch, in the order of the codes."""
    torch.manual_seed(0)
    method: Any = LatentDiffusion(ConditionalVAE(3, classes=3, latent=2, hidden=(4,)), share=1.0, hidden=(8,))
    method.net = Still()
    batch = Labeled(torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0]))
    method.train().denoising(batch)
    assert torch.equal(method.net.labels, batch.y.repeat(DRAWS))


def test_wrong_arguments_and_models_are_refused() -> None:
    with pytest.raises(UsageError, match="share is a share of the training"):
        LatentDiffusion(ToyAutoencoder(4, 2), share=1.5)
    with pytest.raises(UsageError, match="average is a decay"):
        LatentDiffusion(ToyAutoencoder(4, 2), average=1.0)
    with pytest.raises(UsageError, match="wraps an autoencoder with one code; ToyClassifier is not one"):
        LatentDiffusion(ToyClassifier(2, 2))
    odd = LatentDiffusion(ToyAutoencoder(4, 2))
    odd.latent = 3
    with pytest.raises(UsageError, match="needs a code of 3 values"):
        odd.code(torch.zeros(5, 4))
