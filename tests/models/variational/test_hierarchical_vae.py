"""Hierarchies of linear Gaussian layers: their evidence is known, and with the exact posterior the bound reaches it."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.variational.hierarchical_vae import HierarchicalVAE
from deepcanon.models.variational.markov_hierarchical_vae import MarkovHierarchicalVAE

DOUBLE = torch.float64
FEATURES = 2
KINDS = (MarkovHierarchicalVAE, HierarchicalVAE)


def set_layer(net: Any, weight: Tensor, bias: Tensor, variance: Tensor | None = None) -> None:
    """Make a layer the linear map to this mean, and, with a variance, to its log-scale, which depends on nothing."""
    if variance is not None:
        weight = torch.cat([weight, torch.zeros_like(weight)])
        bias = torch.cat([bias, variance.log() / 2])
    with torch.no_grad():
        net[0].weight.copy_(weight)
        net[0].bias.copy_(bias)


def conditional(mean: Tensor, covariance: Tensor, of: int, given: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The weights, the bias and the variance of one variable of a joint Gaussian given others."""
    gain = torch.linalg.solve(covariance[given][:, given], covariance[given, of])
    return gain[None], (mean[of] - gain @ mean[given])[None], (covariance[of, of] - gain @ covariance[given, of])[None]


def linear(kind: Any) -> tuple[Any, MultivariateNormal]:
    """A hierarchy of two latents of one value each with its exact posterior, and the distribution of the data."""
    torch.manual_seed(0)
    model = kind(features=FEATURES, latents=(1, 1), hidden=()).double()
    slope, shift, spread = (torch.tensor([value], dtype=DOUBLE) for value in (0.8, -0.5, 0.6))
    to_data = torch.randn(FEATURES, 1 if model.markov else 2, dtype=DOUBLE)
    offset = torch.randn(FEATURES, dtype=DOUBLE)
    set_layer(model.down[0], slope[None], shift, spread)
    set_layer(model.decoder.net, to_data, offset)
    # The variables (z1, z2, x) as a linear map of independent noise.
    both = torch.tensor([[float(spread.sqrt()), float(slope)], [0.0, 1.0]], dtype=DOUBLE)
    full = torch.cat([to_data, torch.zeros(FEATURES, 1, dtype=DOUBLE)], 1) if model.markov else to_data
    noise = model.decoder.likelihood.scale.detach() * torch.eye(FEATURES, dtype=DOUBLE)
    latents = torch.cat([both, torch.zeros(2, FEATURES, dtype=DOUBLE)], 1)
    factor = torch.cat([latents, torch.cat([full @ both, noise], 1)])
    start = torch.cat([shift, torch.zeros(1, dtype=DOUBLE)])
    mean, covariance = torch.cat([start, full @ start + offset]), factor @ factor.T
    data = [2, 3]
    set_layer(model.encoder, *conditional(mean, covariance, 0, data))
    set_layer(model.up[0], *conditional(mean, covariance, 1, [0] if model.markov else [*data, 0]))
    return model, MultivariateNormal(mean[2:], covariance[2:, 2:])


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_exact_posterior_every_draw_of_the_bound_is_the_evidence(kind: Any) -> None:
    model, evidence = linear(kind)
    x = model.sample(10, generator=Generator().manual_seed(0))
    torch.testing.assert_close(model.log_prob(x, samples=1), evidence.log_prob(x), rtol=1e-10, atol=1e-10)
    total = torch.stack(list(model.loss(Batch(x)).values())).sum()
    torch.testing.assert_close(total, -evidence.log_prob(x).mean(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_another_posterior_stays_below_the_evidence(kind: Any) -> None:
    model, evidence = linear(kind)
    x = model.sample(10, generator=Generator().manual_seed(0))
    with torch.no_grad():
        model.up[0][0].bias += 0.7
        model.encoder[0].bias -= 0.3
        loose, tight = (
            torch.stack([model.log_prob(x, samples=count) for _ in range(400 // count)]).mean(0) for count in (1, 100)
        )
    gaps = evidence.log_prob(x) - loose, evidence.log_prob(x) - tight
    assert gaps[0].mean() > gaps[1].mean() > -0.02
    assert gaps[0].mean() > 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_covariance_of_the_data(kind: Any) -> None:
    model, evidence = linear(kind)
    x = model.sample(50_000, generator=Generator().manual_seed(1))
    torch.testing.assert_close(torch.cov(x.T), evidence.covariance_matrix, rtol=0.05, atol=0.05)
    torch.testing.assert_close(x.mean(0), evidence.mean, rtol=0, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_on_digits_both_layers_are_used(kind: Any) -> None:
    data = dc.load_data("digits:binary")
    torch.manual_seed(0)
    model = kind(features=64, likelihood="bernoulli")
    dc.fit(model, data, epochs=25, quiet=True, evaluate=False)
    posterior, prior = model.encode(data.split("valid").x), model.prior()
    z = posterior.rsample()
    low, top = posterior.parts(z)
    moved = torch.cat([low, top.roll(1, 0)], -1)  # the tops of other examples
    assert (prior.log_prob(z) - prior.log_prob(moved)).mean() > 0.3
    uniform = 64 * torch.tensor(2.0).log()
    assert model.log_prob(data.split("valid").x, samples=20).mean() > -0.6 * uniform


def test_one_layer_is_no_hierarchy() -> None:
    for kind in KINDS:
        with pytest.raises(UsageError, match="two layers"):
            kind(features=4, latents=(3,))
