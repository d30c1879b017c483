"""The inverse autoregressive flow: triangular Jacobians, log-determinants by autograd, inverses, an exact posterior."""

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.nn.inverse_autoregressive import InverseAutoregressive
from deepcanon.nn.transforms import Chain, Reverse


def strong(features: int, context: int, hidden: tuple[int, ...] = (16, 9), seed: int = 0) -> InverseAutoregressive:
    """A step far from the identity."""
    torch.manual_seed(seed)
    transform = InverseAutoregressive(features, context, hidden).double()
    with torch.no_grad():
        for parameter in transform.parameters():
            parameter.copy_(0.6 * torch.randn_like(parameter))
    return transform


@pytest.mark.parametrize("features", [1, 2, 5])
@pytest.mark.parametrize("hidden", [(), (7,), (16, 9)])
@pytest.mark.parametrize("context", [0, 3])
def test_the_log_determinant_is_that_of_a_triangular_jacobian_and_the_inverse_inverts(
    features: int, hidden: tuple[int, ...], context: int
) -> None:
    transform = strong(features, context, hidden)
    x = torch.randn(4, features, dtype=torch.float64)
    given = torch.randn(4, context, dtype=torch.float64) if context else None
    z, log_det = transform(x, given)
    for i in range(4):
        told = None if given is None else given[i : i + 1]

        def one(row: Tensor, told: Tensor | None = told) -> Tensor:
            moved: Tensor = transform(row.unsqueeze(0), told)[0][0]
            return moved

        jacobian = torch.autograd.functional.jacobian(one, x[i])
        assert isinstance(jacobian, Tensor)
        assert torch.equal(jacobian, jacobian.tril())
        torch.testing.assert_close(log_det[i], torch.linalg.slogdet(jacobian)[1], rtol=0, atol=1e-10)
    torch.testing.assert_close(transform.inverse(z, given), x, rtol=0, atol=1e-9)


def test_every_value_depends_on_all_before_it_and_on_the_context() -> None:
    transform = strong(5, 2, (40,))
    x, given = torch.randn(1, 5, dtype=torch.float64), torch.randn(1, 2, dtype=torch.float64)
    jacobians = torch.autograd.functional.jacobian(lambda *both: transform(*both)[0][0], (x, given))
    assert (jacobians[0].squeeze(1).tril().abs() > 0).equal(torch.ones(5, 5).tril() > 0)
    assert (jacobians[1].abs() > 0).all()


def test_a_linear_flow_is_the_cholesky_factor_of_a_gaussian() -> None:
    """Gates that are constant and linear means: noise becomes a Gaussian with the covariance L L', by hand."""
    transform = InverseAutoregressive(3, hidden=()).double()
    wanted = torch.tensor([[0.5, 0.0, 0.0], [0.3, 0.9, 0.0], [-0.7, 0.2, 0.4]], dtype=torch.float64)
    gates = wanted.diagonal()
    with torch.no_grad():
        transform.output.weight.zero_()
        transform.output.weight[:3] = wanted / (1 - gates).unsqueeze(1)
        transform.output.bias.copy_(torch.cat([torch.zeros(3), torch.logit(gates)]))
    noise = torch.randn(6, 3, dtype=torch.float64)
    z, log_det = transform(noise)
    torch.testing.assert_close(z, noise @ wanted.T, rtol=0, atol=1e-12)
    torch.testing.assert_close(log_det, wanted.logdet().expand(6), rtol=0, atol=1e-12)


def test_steps_in_both_orders_let_every_value_depend_on_every_other() -> None:
    chain = Chain([strong(4, 0), Reverse(), strong(4, 0, seed=1)])
    x = torch.randn(1, 4, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda row: chain(row)[0][0], x).squeeze(1)
    assert (jacobian.abs() > 0).all()
    torch.testing.assert_close(chain.inverse(chain(x)[0]), x, rtol=0, atol=1e-9)


def test_it_starts_near_a_scaling_and_refuses_what_makes_no_sense() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    z, _ = InverseAutoregressive(3)(x)
    assert (z - torch.tensor(1.5).sigmoid() * x).abs().max() < 0.2
    with pytest.raises(UsageError, match="features must be at least 1"):
        InverseAutoregressive(0)
    with pytest.raises(UsageError, match="hidden must be at least 1"):
        InverseAutoregressive(2, hidden=(0,))
