from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch
from deepcanon.diagnosis.families.latents_used import divergence_by_data, latents_used, posterior_of
from tests.diagnosis.checks.planted import causes, parent, report_of

VAE = "vae:latent=4,hidden=32"


def kl_times(factor: float) -> dict[str, Any]:
    def loss(self: Any, batch: Any) -> dict[str, Tensor]:
        terms = parent(self).loss(self, batch)
        return {name: factor * term if name == "kl" else term for name, term in terms.items()}

    return {"loss": loss}


def test_a_healthy_one_is_left_alone_and_measured() -> None:
    report = report_of("collapsed_posterior", VAE, "digits")
    assert causes(report) == []
    assert report.passed["collapsed_posterior"]["active"] >= 1


@pytest.mark.slow
def test_a_heavy_divergence_collapses_the_posterior() -> None:
    report = report_of("collapsed_posterior", VAE, "digits", methods=kl_times(1000.0))
    assert causes(report) == ["posterior collapse"]
    assert "of the divergence" in next(iter(report)).confirmed_by


@pytest.mark.slow
def test_without_a_divergence_the_prior_is_unused() -> None:
    assert causes(report_of("collapsed_posterior", VAE, "digits", methods=kl_times(0.0))) == ["prior unused"]


@pytest.mark.slow
def test_half_and_twice_the_divergence_are_sound() -> None:
    for factor in (0.5, 2.0):
        assert causes(report_of("collapsed_posterior", VAE, "digits", methods=kl_times(factor))) == []


def test_information_is_that_of_a_gaussian_channel() -> None:
    class Plain(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return x, x[:, :1], torch.zeros(len(x), 1)  # the mean is a value of variance 3, the noise has variance 1

    x = torch.randn(4000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = (x - x.mean(0)) / x.std(0) * 3**0.5
    found = latents_used(Plain(), Batch(x))
    assert found["information"] == pytest.approx(0.5 * torch.tensor(4.0).log().item(), abs=1e-6)
    # of a Gaussian with variance 4 from the standard normal one: (4 - 1 - log 4) / 2
    assert found["hole"] == pytest.approx(0.5 * (3 - torch.tensor(4.0).log().item()), abs=1e-6)


def test_other_modules_have_no_posterior() -> None:
    assert posterior_of(nn.Linear(2, 2), Batch(torch.zeros(3, 2))) is None


class PlainVAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(2, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + (0.5 * log_variance).exp() * torch.randn_like(mean)), mean, log_variance


def elbo(outputs: tuple[Tensor, Tensor, Tensor], x: Tensor, weight: float = 1.0, scale: float = 1.0) -> Tensor:
    again, mean, log_variance = outputs
    kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
    return (0.5 * scale * (again - x).square().sum(1) + weight * kl).mean()


def test_the_weights_of_a_plain_loss_are_read_off_it() -> None:
    x = torch.randn(500, 8, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0] + [0.1] * 7)
    largest = float(torch.linalg.eigvalsh(torch.cov(x.T)).max())
    for weight, scale in ((1.0, 1.0), (100.0, 1.0), (1.0, 0.01)):
        loss = partial(elbo, weight=weight, scale=scale)
        found = divergence_by_data(partial(loss, x=x), PlainVAE(), Batch(x))
        assert found == pytest.approx(weight / scale / largest, rel=1e-3)
    assert divergence_by_data(lambda outputs: outputs[0].exp().sum(), PlainVAE(), Batch(x)) is None


def test_the_gain_of_a_latent_of_bits_is_that_of_standardized_residuals() -> None:
    x = (torch.randn(500, 1, generator=torch.Generator().manual_seed(0)) > 0.5).float().expand(-1, 8)

    def loss(outputs: dict[str, Tensor], x: Tensor) -> Tensor:
        nats = nn.functional.binary_cross_entropy_with_logits(outputs["logits"], x, reduction="none").sum(1)
        return elbo((x, outputs["mean"], outputs["log_variance"]), x, weight=12.0) + nats.mean()

    class Named(PlainVAE):
        def forward(self, x: Tensor) -> Any:
            again, mean, log_variance = super().forward(x)
            return {"mean": mean, "log_variance": log_variance, "logits": again}

    # all eight bits are the same one: the largest eigenvalue of their correlations is 8
    assert divergence_by_data(partial(loss, x=x), Named(), Batch(x)) == pytest.approx(12 / 8, rel=1e-2)


@pytest.mark.slow
def test_a_plain_module_is_named_only_if_its_divergence_outweighs_the_data() -> None:
    x = torch.randn(400, 8, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0] + [0.1] * 7)
    for weight, lr, wanted in (
        (1.0, 1e-2, []),
        (100.0, 1e-2, ["posterior collapse"]),
        (1.0, 1e-7, []),
        (0.0, 1e-2, ["prior unused"]),
    ):
        torch.manual_seed(0)
        net = PlainVAE()
        with torch.no_grad():
            net.encoder.weight.mul_(1e-3)  # a young one says nothing yet, at a low rate for long
        report = report_of("collapsed_posterior", net, x, loss=partial(elbo, weight=weight), optimizer="adam", lr=lr)
        assert causes(report) == wanted
