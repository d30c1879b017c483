"""Heads against scipy's densities, and torch's distributions reached by name."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from deepcanon.core import UsageError
from deepcanon.distributions.heads import Head, HeteroscedasticGaussian, NamedHead, head_layer
from deepcanon.distributions.likelihoods import BernoulliLikelihood, GaussianLikelihood


def test_means_and_scales_of_the_heteroscedastic_head_are_its_outputs() -> None:
    head = HeteroscedasticGaussian()
    outputs, y = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    mean, raw = outputs[:, :2].numpy(), outputs[:, 2:].numpy()
    scale = head.SMALLEST + np.log1p(np.exp(raw))
    distribution = head.distribution(outputs)
    np.testing.assert_allclose(
        distribution.log_prob(y).numpy(), stats.norm.logpdf(y.numpy(), mean, scale).sum(-1), rtol=1e-10
    )
    assert torch.equal(distribution.mean, outputs[:, :2])
    smallest = head.distribution(torch.full((1, 2), -1e3)).stddev
    assert smallest.item() == pytest.approx(head.SMALLEST)


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("gumbel", lambda a, b: stats.gumbel_r(a, np.exp(b))),
        ("laplace", lambda a, b: stats.laplace(a, np.exp(b))),
        ("Normal", lambda a, b: stats.norm(a, np.exp(b))),
        ("gamma", lambda a, b: stats.gamma(np.exp(a), scale=np.exp(-b))),
        ("log_normal", lambda a, b: stats.lognorm(np.exp(b), scale=np.exp(a))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_head_by_name_is_scipys_distribution(name: str, oracle: object) -> None:
    outputs = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.rand(7, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.1
    theirs = oracle(*outputs.T.numpy())  # type: ignore[operator]
    ours = head_layer(name).distribution(outputs)
    np.testing.assert_allclose(ours.log_prob(y).numpy(), theirs.logpdf(y[:, 0].numpy()), rtol=1e-9)
    np.testing.assert_allclose(ours.mean[:, 0].numpy(), theirs.mean(), rtol=1e-9)


def test_counts_have_a_rate_that_is_the_exponential() -> None:
    head = head_layer("poisson")
    distribution = head.distribution(torch.tensor([[0.0, math.log(3)]]))
    assert head.numbers == 1
    expected = stats.poisson(1).logpmf(2) + stats.poisson(3).logpmf(4)
    assert distribution.log_prob(torch.tensor([[2.0, 4.0]])).item() == pytest.approx(expected, rel=1e-6)


def test_the_short_names_are_the_likelihoods_of_decoders() -> None:
    assert isinstance(head_layer("gaussian"), GaussianLikelihood)
    assert isinstance(head_layer("bernoulli"), BernoulliLikelihood)
    assert isinstance(head_layer("heteroscedastic"), HeteroscedasticGaussian)
    student = head_layer("StudentT")
    assert isinstance(student, NamedHead)
    assert isinstance(student, Head)
    assert student.numbers == 3


@pytest.mark.parametrize("name", ["uniform", "dirichlet", "binomial", "transformed_distribution", "gausian"])
def test_what_cannot_be_a_head_is_refused_with_what_can(name: str) -> None:
    with pytest.raises(UsageError, match=r"gaussian, heteroscedastic, bernoulli or .*Gumbel.*StudentT"):
        head_layer(name)
