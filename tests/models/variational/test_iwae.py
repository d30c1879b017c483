"""The bound of a linear Gaussian model rises with its samples to the evidence, which is known."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from deepcanon.core import Batch, UsageError
from deepcanon.models.variational.iwae import IWAE


def linear(count: int) -> tuple[Any, Tensor, Tensor]:
    """A model without hidden layers, examples, and the evidence of each by the closed form."""
    torch.manual_seed(0)
    model: Any = IWAE(features=3, latent=2, hidden=(), importance_samples=count).double()
    with torch.no_grad():
        model.decoder.likelihood.log_scale.fill_(0.3)
        model.encoder[0].weight.mul_(0.3)
    x = torch.randn(6, 3, dtype=torch.float64)
    layer = model.decoder.net[0]
    noise = model.decoder.likelihood.scale.square() * torch.eye(3, dtype=torch.float64)
    evidence = MultivariateNormal(layer.bias, layer.weight @ layer.weight.T + noise).log_prob(x)
    return model, x, evidence.detach()


@pytest.mark.slow
def test_the_bound_never_falls_with_more_samples_and_tends_to_the_evidence() -> None:
    means, errors = [], []
    for count in (1, 5, 50, 1000):
        model, x, evidence = linear(count)
        draws = torch.stack([model.log_prob(x) for _ in range(max(20, 2000 // count))])
        means.append((draws - evidence).mean().item())
        errors.append((draws.mean(1).std() / math.sqrt(len(draws))).item())
    for before, after, error in zip(means, means[1:], errors, strict=False):
        assert after > before - 4 * error
    assert means[0] < -0.5  # the bound is loose with one sample
    assert abs(means[-1]) < 0.02
    assert max(means) < 4 * max(errors[-1], 1e-3)


def test_the_gradient_counts_each_sample_by_its_normalized_weight() -> None:
    """Equation (3) of the model, written out for one draw."""
    model, x, _ = linear(4)
    parameters = list(model.parameters())
    torch.manual_seed(3)
    found = torch.autograd.grad(model.loss(Batch(x))["bound"], parameters)
    torch.manual_seed(3)
    posterior = model.encode(x)
    z = posterior.rsample(torch.Size([4]))
    log_weights = model.decode(z).log_prob(x) + model.prior().log_prob(z) - posterior.log_prob(z)
    counted = -(log_weights.softmax(0).detach() * log_weights).sum(0).mean()
    for mine, wanted in zip(found, torch.autograd.grad(counted, parameters), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_with_one_sample_it_is_the_bound_of_the_vae() -> None:
    model, x, _ = linear(1)
    with torch.no_grad():
        losses = torch.stack([model.loss(Batch(x))["bound"] for _ in range(1000)])
        elbo = torch.stack([sum(model.bound(x)).mean() for _ in range(1000)])
    assert abs(losses.mean() - elbo.mean()) < 4 * math.hypot(losses.std().item(), elbo.std().item()) / 1000**0.5


def test_a_sample_is_needed() -> None:
    with pytest.raises(UsageError, match="importance_samples must be at least 1"):
        IWAE(features=3, importance_samples=0)
