"""Likelihoods against scipy's densities."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Bernoulli, Independent
from torch.nn.functional import binary_cross_entropy_with_logits

from deepcanon.core import UsageError
from deepcanon.distributions.likelihoods import BernoulliLikelihood, GaussianLikelihood, likelihood_layer


def test_the_gaussian_is_scipys_with_the_learned_scale() -> None:
    layer = GaussianLikelihood().double()
    torch.nn.init.constant_(layer.log_scale, 0.3)
    outputs, x = torch.randn(2, 5, 3, dtype=torch.float64)
    scale = np.exp(0.3) + layer.SMALLEST
    oracle = stats.norm.logpdf(x.numpy(), outputs.numpy(), scale).sum(-1)
    np.testing.assert_allclose(layer.distribution(outputs).log_prob(x).detach().numpy(), oracle, rtol=1e-12)
    assert torch.equal(layer(outputs), layer.distribution(outputs).mean)


def test_the_scale_stays_above_its_bound() -> None:
    layer = GaussianLikelihood()
    torch.nn.init.constant_(layer.log_scale, -100.0)
    assert layer.scale.item() == pytest.approx(layer.SMALLEST)


def test_the_bernoulli_samples_are_scipys_and_their_mean_is_the_map() -> None:
    layer = BernoulliLikelihood()
    logits = torch.tensor([[-1.0, 0.5, 2.0], [0.0, -30.0, 30.0]], dtype=torch.float64)
    x = torch.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]], dtype=torch.float64)
    oracle = stats.bernoulli.logpmf(x.numpy(), 1 / (1 + np.exp(-logits.numpy()))).sum(-1)
    np.testing.assert_allclose(layer.distribution(logits).log_prob(x).numpy(), oracle, rtol=1e-10)
    torch.testing.assert_close(layer(logits), layer.distribution(logits).mean)


def test_the_bernoulli_is_torchs_for_many_outputs_of_each_value_gray_values_and_large_logits() -> None:
    torch.manual_seed(0)
    logits = (40 * torch.randn(6, 5, 3, dtype=torch.float64)).requires_grad_()
    x = torch.rand(5, 3, dtype=torch.float64)
    ours, theirs = BernoulliLikelihood().distribution(logits), Independent(Bernoulli(logits=logits), 1)
    found, wanted = (
        ours.log_prob(x),
        -binary_cross_entropy_with_logits(logits, x.expand(6, 5, 3), reduction="none").sum(-1),
    )
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.log_prob(x.round()), theirs.log_prob(x.round()), rtol=1e-12, atol=1e-12)
    slopes = (torch.autograd.grad(each.sin().sum(), logits) for each in (found, wanted))
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-12)


def test_an_unknown_likelihood_is_refused() -> None:
    with pytest.raises(UsageError, match="gaussian, bernoulli"):
        likelihood_layer("poisson")  # type: ignore[arg-type]
