from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch
from deepcanon.diagnosis.families.latents_used import latents_used, posterior_of
from tests.diagnosis.checks.planted import causes, report_of

VAE = "vae:latent=4,hidden=32"


def kl_times(factor: float) -> dict[str, Any]:
    def loss(self: Any, batch: Any) -> dict[str, Tensor]:
        terms = type(self).__mro__[1].loss(self, batch)
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


def test_without_a_divergence_the_prior_is_unused() -> None:
    assert causes(report_of("collapsed_posterior", VAE, "digits", methods=kl_times(0.0))) == ["prior unused"]


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
