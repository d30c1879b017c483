"""Gaussians of independent values: torch's own are the oracle."""

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal, kl_divergence

from deepcanon.core import draw
from deepcanon.distributions.diagonal import Diagonal


def parameters(*shape: int) -> tuple[Tensor, Tensor]:
    loc = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    return loc, (0.5 * torch.randn(*shape, dtype=torch.float64)).requires_grad_()


def pair(*shape: int) -> tuple[Diagonal, Distribution]:
    loc, log_scale = parameters(*shape)
    return Diagonal(loc, log_scale), Independent(Normal(loc, log_scale.exp()), 1)


def test_density_and_gradients_are_those_of_independent_gaussians() -> None:
    torch.manual_seed(0)
    ours, theirs = pair(3, 5, 4)
    x = torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(ours.log_prob(x), theirs.log_prob(x))
    slopes = [torch.autograd.grad(each.log_prob(x).sin().sum(), (ours.loc, ours.log_scale)) for each in (ours, theirs)]
    torch.testing.assert_close(*slopes)


def test_moments_shapes_and_entropy_are_those_of_independent_gaussians() -> None:
    torch.manual_seed(0)
    ours, theirs = pair(5, 4)
    assert (ours.batch_shape, ours.event_shape) == (theirs.batch_shape, theirs.event_shape)
    for name in ("mean", "mode", "stddev", "variance"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


def test_draws_are_those_of_torch_and_come_with_their_density_and_its_gradients() -> None:
    torch.manual_seed(0)
    ours, theirs = pair(5, 4)
    torch.manual_seed(1)
    z, density = ours.rsample_and_log_prob((3,))
    torch.manual_seed(1)
    expected = theirs.rsample(torch.Size([3]))
    torch.testing.assert_close(z, expected)
    torch.testing.assert_close(density, theirs.log_prob(expected))
    slopes = [
        torch.autograd.grad((each.sin().sum() + point.square().sum()), (ours.loc, ours.log_scale))
        for point, each in ((z, density), (expected, theirs.log_prob(expected)))
    ]
    torch.testing.assert_close(*slopes)
    generated = draw(ours, torch.Generator().manual_seed(1), (2,))
    assert torch.equal(generated, draw(ours, torch.Generator().manual_seed(1), (2,)))


def test_divergences_are_those_of_torch_in_either_form() -> None:
    torch.manual_seed(0)
    (ours, theirs), (prior, other) = pair(5, 4), pair(4)
    exact = kl_divergence(theirs, other.expand(theirs.batch_shape))
    torch.testing.assert_close(kl_divergence(ours, prior), exact)
    torch.testing.assert_close(kl_divergence(theirs, prior), exact)
