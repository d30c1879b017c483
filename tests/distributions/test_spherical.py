"""One scale for all values: torch's own independent Gaussians are the oracle."""

import torch
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import draw
from deepcanon.distributions.spherical import Spherical


def pair() -> tuple[Spherical, Distribution, torch.Tensor]:
    torch.manual_seed(0)
    loc = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    return Spherical(loc, scale), Independent(Normal(loc, scale), 1), scale


def test_density_and_gradients_are_those_of_independent_gaussians() -> None:
    ours, theirs, scale = pair()
    x = torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(ours.log_prob(x), theirs.log_prob(x))
    slopes = [torch.autograd.grad(d.log_prob(x).sin().sum(), (ours.loc, scale)) for d in (ours, theirs)]
    torch.testing.assert_close(*slopes)


def test_moments_shapes_and_entropy_are_those_of_independent_gaussians() -> None:
    ours, theirs, _ = pair()
    assert (ours.batch_shape, ours.event_shape) == (theirs.batch_shape, theirs.event_shape)
    for name in ("mean", "mode", "stddev", "variance"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


def test_draws_have_the_scale_follow_the_generator_and_carry_gradients() -> None:
    ours, _, scale = pair()
    drawn = draw(ours, torch.Generator().manual_seed(1), (2000,))
    assert torch.equal(drawn, draw(ours, torch.Generator().manual_seed(1), (2000,)))
    assert abs(float((drawn - ours.mean).detach().std()) - 0.7) < 0.01
    (slope,) = torch.autograd.grad(((ours.rsample(torch.Size([500])) - ours.loc).square()).mean(), scale)
    assert abs(float(slope) - 2 * 0.7) < 0.05  # of the variance
