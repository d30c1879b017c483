"""Planar and radial flows: log-determinants against the Jacobian, inverses, and densities by quadrature."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from deepcanon.distributions.pushforward import Pushforward
from deepcanon.nn.planar_flow import Planar, Radial
from deepcanon.nn.transforms import Chain


def strong(kind: Any, features: int, context: int = 0, seed: int = 0, scale: float = 2.0) -> Any:
    """A transform far from the identity."""
    torch.manual_seed(seed)
    transform = kind(features, context).double()
    with torch.no_grad():
        for parameter in transform.parameters():
            parameter.copy_(scale * torch.randn_like(parameter))
    return transform


@pytest.mark.parametrize("kind", [Planar, Radial])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("features", [1, 3])
def test_the_log_determinant_is_that_of_the_jacobian_and_the_inverse_inverts(
    kind: Any, seed: int, features: int
) -> None:
    transform = strong(kind, features, 2, seed)
    x, context = torch.randn(5, features, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
    z, log_det = transform(x, context)
    for i in range(5):

        def one(row: Tensor, i: int = i) -> Tensor:
            moved: Tensor = transform(row.unsqueeze(0), context[i : i + 1])[0][0]
            return moved

        jacobian = torch.autograd.functional.jacobian(one, x[i])
        assert isinstance(jacobian, Tensor)
        sign, wanted = torch.linalg.slogdet(jacobian)
        assert sign > 0
        torch.testing.assert_close(log_det[i], wanted, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(transform.inverse(z, context), x, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", [Planar, Radial])
def test_numbers_near_zero_make_it_nearly_the_identity(kind: Any) -> None:
    transform = kind(2).double()
    with torch.no_grad():
        transform.numbers.copy_(torch.full_like(transform.numbers, 1e-6))
    x = torch.randn(4, 2, dtype=torch.float64)
    z, log_det = transform(x)
    torch.testing.assert_close(z, x, rtol=0, atol=1e-4)
    torch.testing.assert_close(log_det, torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [Planar, Radial])
def test_the_density_of_a_pushforward_integrates_to_one_and_is_the_same_at_its_draws(kind: Any) -> None:
    chain = Chain([strong(kind, 2, 0, seed, 0.7) for seed in range(3)])
    base = Independent(Normal(torch.tensor([[0.3, -0.2]], dtype=torch.float64), 0.8), 1)
    q = Pushforward(base, chain)
    line = torch.linspace(-8, 8, 201, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line).unsqueeze(1)  # (points, 1, 2)
    with torch.no_grad():
        mass = q.log_prob(grid).exp().sum() * (line[1] - line[0]) ** 2
        z = q.rsample(torch.Size([50]))
        at_draws = q.log_prob(z)
        torch.testing.assert_close(q.log_prob(z.clone()), at_draws, rtol=1e-7, atol=1e-7)
    assert abs(float(mass) - 1) < 2e-3


def test_mean_and_variance_of_a_pushforward_are_near_those_of_many_draws() -> None:
    base = Independent(Normal(torch.zeros(2, 3, dtype=torch.float64), 1.0), 1)
    context = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q = Pushforward(base, Chain([strong(Planar, 3, 4)]), context)
    with torch.no_grad():
        torch.manual_seed(0)
        drawn = q.sample(torch.Size([20000]))
        assert (drawn.mean(0) - q.mean).abs().max() < 0.4 * drawn.std(0).max()
        assert ((q.stddev / drawn.std(0)).log().abs() < 0.3).all()
        assert torch.equal(q.mean, q.mean)
