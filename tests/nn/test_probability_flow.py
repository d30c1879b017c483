"""Probability flow: divergences against Jacobians, solutions against matrix exponentials, examples apart."""

import math

import torch
from torch import Tensor

from deepcanon.nn.probability_flow import axes, random_signs, to_data, to_noise, with_divergence

A = torch.tensor([[0.3, -1.0, 0.2], [0.8, -0.5, 0.1], [0.0, 0.4, 0.7]], dtype=torch.float64)


def linear(angle: Tensor, y: Tensor) -> Tensor:
    return y @ A.T


def bent(y: Tensor) -> Tensor:
    return (y @ A.T).tanh() * y.flip(-1)


def test_the_divergence_along_all_axes_is_the_trace_of_the_jacobian() -> None:
    y = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    value, found = with_divergence(bent, y, axes(y))
    jacobians = torch.stack([torch.autograd.functional.jacobian(bent, row) for row in y])
    assert torch.allclose(found, jacobians.diagonal(dim1=1, dim2=2).sum(-1), atol=1e-12)
    assert torch.equal(value, bent(y))


def test_random_signs_have_the_trace_as_their_mean() -> None:
    y = torch.zeros(1, 3, dtype=torch.float64)
    signs = random_signs(y, 20_000, torch.Generator().manual_seed(0)) * math.sqrt(20_000)
    forms = ((signs[:, 0] @ A.T) * signs[:, 0]).sum(-1)
    assert abs(float(forms.mean() - A.trace())) < 5 * float(forms.std()) / math.sqrt(20_000)
    assert torch.equal(signs.abs(), torch.ones_like(signs))


def test_a_linear_flow_is_a_matrix_exponential_there_and_back() -> None:
    y = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z, change = to_noise(linear, y, 1.2, axes(y), tolerance=1e-10)
    assert torch.allclose(z, y @ torch.linalg.matrix_exp(1.2 * A).T, atol=1e-8)
    assert torch.allclose(change, (1.2 * A.trace()).expand(4), atol=1e-9)
    assert torch.allclose(to_data(linear, z, 1.2, tolerance=1e-10), y, atol=1e-8)


def test_gradients_reach_the_data_through_solution_and_divergence() -> None:
    y = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def total(y: Tensor) -> Tensor:
        z, change = to_noise(lambda angle, point: bent(point), y, 0.5, axes(y), tolerance=1e-9)
        return (z.square().sum(-1) + change).sum()

    (found,) = torch.autograd.grad(total(y), y)
    with torch.no_grad():
        step = torch.zeros_like(y)
        step[1, 2] = 1e-5
        slope = (total(y + step) - total(y - step)) / 2e-5
    assert abs(float(found[1, 2] - slope)) < 1e-5
