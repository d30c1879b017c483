"""A Markov hierarchy passes everything through its lowest layer; what holds of both kinds is in the other's tests."""

from typing import Any

import pytest
import torch

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
