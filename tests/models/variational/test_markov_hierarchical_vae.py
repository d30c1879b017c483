"""A Markov hierarchy passes everything through its lowest layer; what holds of both kinds is in the other's tests."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from scipy.special import roots_hermitenorm
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.models.variational.hierarchical_vae import HierarchicalVAE
from deepcanon.models.variational.markov_hierarchical_vae import MarkovHierarchicalVAE


@pytest.mark.parametrize("kind", [MarkovHierarchicalVAE, HierarchicalVAE])
def test_the_top_reaches_the_data_through_the_lowest_layer_alone(kind: Any) -> None:
    torch.manual_seed(0)
    model = kind(features=3, latents=(2, 2, 1), hidden=(8,)).double()
    z = torch.zeros(1, 5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(model.decode(z).mean.sum(), z)
    assert bool((gradient[0, 2:] == 0).all()) is (kind is MarkovHierarchicalVAE)


@pytest.mark.parametrize("kind", [MarkovHierarchicalVAE, HierarchicalVAE])
def test_a_layer_sees_its_neighbor_alone(kind: Any) -> None:
    """The prior of the lowest layer depends on the top of three only where the chain is not Markov."""
    torch.manual_seed(0)
    model = kind(features=3, latents=(1, 1, 1), hidden=(8,)).double()
    z = torch.tensor([[0.3, -0.2, 0.5], [0.3, -0.2, 1.5]], dtype=torch.float64)
    other = z.clone()
    other[:, 0] += 1
    prior = model.prior()
    change = prior.log_prob(other) - prior.log_prob(z)  # all but the factor of the lowest layer cancels
    assert bool((change[0] - change[1]).abs() < 1e-12) is (kind is MarkovHierarchicalVAE)


COUNT = 220
"""The nodes of a quadrature over a Gaussian."""


class FromDiffusion(nn.Module):
    """A step of a diffusion model as a layer of a hierarchy: the mean and the log-scale of one distribution."""

    def __init__(self, step: Any, t: int, scales: bool = True) -> None:
        super().__init__()
        self.step, self.t, self.scales = step, t, scales

    def forward(self, z: Tensor) -> Tensor:
        found = self.step(z, torch.full(z.shape[:-1], self.t))
        return torch.cat([found.mean, found.stddev.log()], -1) if self.scales else found.mean


def as_hierarchy(ddpm: Any) -> Any:
    """The Markov hierarchy of which the noise is the encoder, without parameters, and the reverse process the prior."""
    steps, features = ddpm.timesteps, ddpm.features
    model: Any = MarkovHierarchicalVAE(features, latents=(features,) * steps, hidden=()).double()
    model.encoder = FromDiffusion(ddpm.step, 1)
    model.up = nn.ModuleList(FromDiffusion(ddpm.step, t) for t in range(2, steps + 1))
    model.down = nn.ModuleList(FromDiffusion(ddpm.reverse, t) for t in range(2, steps + 1))
    model.decoder.net = FromDiffusion(ddpm.reverse, 1, scales=False)
    spread = ddpm.reverse(torch.zeros(1, features).double(), torch.ones(1, dtype=torch.long)).stddev
    with torch.no_grad():
        model.decoder.likelihood.log_scale.copy_((spread.flatten()[0] - model.decoder.likelihood.SMALLEST).log())
    return model


def next_of(draws: Iterator[Tensor], *_: Any, **__: Any) -> Tensor:
    """The next of given draws, in place of those that are asked for."""
    return next(draws)


def diffusion(features: int, timesteps: int) -> Any:
    """A diffusion model with a network that predicts something, of data that are not standardized."""
    torch.manual_seed(0)
    ddpm: Any = dc.find("ddpm")(features=features, hidden=(8,), timesteps=timesteps).double()
    with torch.no_grad():
        for value in ddpm.state_dict().values():
            value.add_(0.05 * torch.randn_like(value))
    ddpm.to_standard.set(torch.tensor(0.7).double(), torch.tensor(-0.4).double())
    return ddpm.eval()


@pytest.mark.slow
def test_a_diffusion_model_is_a_markov_hierarchy_with_a_fixed_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both bounds as expectations, by Gauss-Hermite quadrature over the noise that each of them draws."""
    ddpm = diffusion(features=1, timesteps=2)
    nodes, weights = (torch.from_numpy(values) for values in roots_hermitenorm(COUNT))
    weights = weights / weights.sum()
    both = torch.cartesian_prod(nodes, nodes)
    for value in (-0.8, 1.7):
        draws = iter([both[:, :1], both[:, 1:]])
        with monkeypatch.context() as patch, torch.no_grad():
            patch.setattr(torch, "randn_like", lambda x: nodes.repeat(len(x) // COUNT)[:, None])
            terms = ddpm.bound(torch.full((COUNT, 1), value).double())
            diffused = sum(float((weights * term).sum()) for term in terms.values())
            patch.setattr(torch, "randn", partial(next_of, draws))
            reconstruction, kl = as_hierarchy(ddpm).bound(torch.full((COUNT**2, 1), value).double())
            hierarchical = float((torch.cartesian_prod(weights, weights).prod(-1) * (reconstruction + kl)).sum())
        assert abs(hierarchical - diffused) < 1e-10


def test_the_divergence_of_a_draw_is_that_of_the_posterior_of_the_noise() -> None:
    """log q(x_1 ... x_T | x_0) = log q(x_T | x_0) + sum of log q(x_t-1 | x_t, x_0), for each draw of a longer chain."""
    ddpm = diffusion(features=3, timesteps=12)
    model, x = as_hierarchy(ddpm), torch.randn(5, 3, dtype=torch.float64)
    with torch.no_grad():
        posterior = model.encode(x)
        z = posterior.rsample()
        found = model.decode(z).log_prob(x) + model.prior().log_prob(z) - posterior.log_prob(z)
        layers = z.split(3, -1)
        last = torch.full((5,), 12)
        wanted = ddpm.prior().log_prob(layers[-1]) - ddpm.noised(x, last).log_prob(layers[-1])
        for step in range(12, 1, -1):
            t, above, below = torch.full((5,), step), layers[step - 1], layers[step - 2]
            wanted += ddpm.reverse(above, t).log_prob(below) - ddpm.posterior(above, x, t).log_prob(below)
        wanted += ddpm.reverse(layers[0], torch.ones(5, dtype=torch.long)).log_prob(x)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    assert not math.isclose(found[0], found[1])
