"""Masked autoregressive steps: triangular Jacobians, the inverse and its gradients, the fused gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.fusing import can_fuse
from deepcanon.nn.inverse_autoregressive import InverseAutoregressive
from deepcanon.nn.masked_autoregressive import MaskedAutoregressive

KINDS = [MaskedAutoregressive, InverseAutoregressive]
FORMS = [((), 0, False), ((9,), 2, True), ((12, 12), 0, True), ((12, 12), 2, False)]


def strong(kind: Any, hidden: tuple[int, ...], context: int, backwards: bool) -> tuple[Any, Tensor, tuple[Tensor, ...]]:
    """A step of five values far from the identity, two examples, and their contexts as arguments, if there are any."""
    torch.manual_seed(0)
    step = kind(5, context, hidden, backwards=backwards).double()
    with torch.no_grad():
        for parameter in step.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    return step, x, (torch.randn(2, 2, dtype=torch.float64, requires_grad=True),) if context else ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hidden", "context", "backwards"), FORMS)
def test_the_jacobian_is_triangular_with_the_claimed_determinant_and_the_inverse_inverts(
    kind: Any, hidden: tuple[int, ...], context: int, backwards: bool
) -> None:
    step, x, told = strong(kind, hidden, context, backwards)
    z, log_det = step(x, *told)
    torch.testing.assert_close(step.inverse(z, *told), x, rtol=0, atol=1e-12)
    for i in range(2):
        one = tuple(part[i : i + 1] for part in told)
        jacobian = torch.autograd.functional.jacobian(lambda row, c=one: step(row.unsqueeze(0), *c)[0][0], x[i])
        above = jacobian.tril(-1) if backwards else jacobian.triu(1)
        assert float(above.abs().max()) == 0
        below = jacobian.triu(1) if backwards else jacobian.tril(-1)
        assert int((below != 0).sum()) >= 6  # values do depend on those before them
        torch.testing.assert_close(log_det[i], torch.linalg.slogdet(jacobian).logabsdet)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hidden", "context", "backwards"), FORMS)
def test_gradients_through_the_inverse_are_finite_differences(
    kind: Any, hidden: tuple[int, ...], context: int, backwards: bool
) -> None:
    step, z, told = strong(kind, hidden, context, backwards)

    def inverse(*values: Tensor) -> Any:
        return step.inverse_with_log_det(*values[: 1 + len(told)])

    assert torch.autograd.gradcheck(inverse, (z, *told, *step.parameters()), fast_mode=True)
    x, log_det = step.inverse_with_log_det(z, *told)
    torch.testing.assert_close(step.inverse(z, *told), x, rtol=0, atol=0)
    torch.testing.assert_close(log_det, -step(x, *told)[1])
    (of_log_det,) = torch.autograd.grad(log_det.sum(), z)  # nothing of the gradient is that of x
    torch.testing.assert_close(of_log_det, numerical(lambda part: step.inverse_with_log_det(part, *told)[1], z))


def numerical(function: Any, at: Tensor) -> Tensor:
    """The gradient of the sum of what a function gives, by central differences."""
    found, step = torch.zeros_like(at), 1e-6
    for place in range(at.numel()):
        along = torch.zeros(at.numel(), dtype=at.dtype).index_fill_(0, torch.tensor([place]), step).view(at.shape)
        found.view(-1)[place] = (function(at + along) - function(at - along)).sum() / (2 * step)
    return found


def test_a_second_derivative_of_the_inverse_is_refused_rather_than_wrong() -> None:
    step, z, _ = strong(MaskedAutoregressive, (9,), 0, False)
    with pytest.raises(UsageError, match="first derivatives only"):
        torch.autograd.grad(step.inverse(z).sum(), z, create_graph=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hidden", "context", "backwards"), FORMS)
def test_the_fused_step_has_the_gradients_of_autograd_the_second_too(
    kind: Any, hidden: tuple[int, ...], context: int, backwards: bool
) -> None:
    step, x, told = strong(kind, hidden, context, backwards)
    assert can_fuse(x)
    inputs = (x, *told, *step.parameters())

    def forward(*values: Tensor) -> Any:
        return step(*values[: 1 + len(told)])

    assert torch.autograd.gradcheck(forward, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(forward, inputs, fast_mode=True)
    z, log_scale = step.moved(x, told[0] if told else None)
    torch.testing.assert_close(forward(x, *told), (z, log_scale.sum(-1)))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_parameters_that_are_put_in_place_of_its_own(kind: Any) -> None:
    step, x, _ = strong(kind, (12, 12), 0, False)
    given = {name: value.detach().clone().requires_grad_() for name, value in step.named_parameters()}
    total = torch.func.functional_call(step, given, (x,))[0].square().sum()
    once, twice = (
        torch.autograd.grad(total, list(given.values()), retain_graph=True, create_graph=graph)
        for graph in (False, True)
    )
    torch.testing.assert_close(once, twice)


def test_plain_operations_are_left_to_what_looks_inside() -> None:
    x = torch.randn(2, 3)
    with torch.no_grad():
        assert not can_fuse(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not can_fuse(x)
    step = MaskedAutoregressive(3)
    mapped = torch.func.vmap(torch.func.grad(lambda row: step(row.unsqueeze(0))[1].sum()))(x)
    (wanted,) = torch.autograd.grad(step(x.requires_grad_())[1].sum(), x)
    torch.testing.assert_close(mapped, wanted)
