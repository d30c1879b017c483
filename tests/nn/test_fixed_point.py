"""Fixed points: closed forms, and the implicit gradient against the unrolled one and finite differences."""

import pytest
import torch
from torch import Tensor

from deepcanon.core import DivergenceError
from deepcanon.nn import fixed_point


def contraction(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of norm 0.8, inputs and a direction to pull the state in."""
    random = torch.Generator().manual_seed(seed)
    weight = torch.randn(5, 5, dtype=torch.float64, generator=random)
    weight = (0.8 * weight / torch.linalg.matrix_norm(weight, 2)).requires_grad_()
    x = torch.randn(7, 5, dtype=torch.float64, generator=random).requires_grad_()
    return weight, x, torch.randn(7, 5, dtype=torch.float64, generator=random)


@pytest.mark.slow
def test_a_linear_fixed_point_is_the_solution_of_its_equation() -> None:
    weight, x, _ = contraction()
    found = fixed_point(lambda z: z @ weight.T + x, torch.zeros_like(x))
    wanted = torch.linalg.solve(torch.eye(5, dtype=torch.float64) - weight, x.T).T
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(
        lambda w, b: fixed_point(lambda z: z @ w.T + b, torch.zeros_like(b)),
        (weight, x),
        atol=1e-6,
        check_undefined_grad=False,
    )


@pytest.mark.slow
def test_the_implicit_gradient_is_the_unrolled_one_and_the_slope() -> None:
    weight, x, pull = contraction()

    def step(z: Tensor) -> Tensor:
        return (z @ weight.T + x).tanh()

    implicit = torch.autograd.grad((fixed_point(step, torch.zeros_like(x)) * pull).sum(), (weight, x))
    state = torch.zeros_like(x)
    for _ in range(300):
        state = step(state)
    unrolled = torch.autograd.grad((state * pull).sum(), (weight, x))
    for ours, theirs in zip(implicit, unrolled, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    assert torch.autograd.gradcheck(
        lambda w, b: fixed_point(lambda z: (z @ w.T + b).tanh(), torch.zeros_like(b)),
        (weight, x),
        atol=1e-6,
        check_undefined_grad=False,
    )


def test_the_start_does_not_matter_and_gets_no_gradient() -> None:
    weight, x, pull = contraction()
    start = pull.clone().requires_grad_()
    one, other = (fixed_point(lambda z: (z @ weight.T + x).tanh(), begin) for begin in (start, torch.zeros_like(x)))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    one.sum().backward()
    assert start.grad is None
    assert x.grad is not None


def test_values_are_the_same_with_and_without_gradients() -> None:
    weight, x, _ = contraction()
    with_gradient = fixed_point(lambda z: (z @ weight.T + x).tanh(), torch.zeros_like(x))
    with torch.no_grad():
        without = fixed_point(lambda z: (z @ weight.T + x).tanh(), torch.zeros_like(x))
    assert torch.equal(with_gradient, without)
    assert not without.requires_grad
    assert fixed_point(lambda z: z * 0 + 1, torch.zeros(3)).tolist() == [1, 1, 1]  # no gradient is asked for


@pytest.mark.parametrize(("factor", "said"), [(1.01, "1.01 times"), (-1.5, "moves by inf"), (30.0, "moves by inf")])
def test_what_is_not_a_contraction_is_refused(factor: float, said: str) -> None:
    with pytest.raises(DivergenceError, match=rf"{said}.*; the step must be a contraction"):
        fixed_point(lambda z: factor * z + 1, torch.zeros(3), most=300)


def test_an_adjoint_that_does_not_come_to_rest_is_refused() -> None:
    """The state starts where nothing moves, but the step stretches around it."""
    w = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    found = fixed_point(lambda z: w * z, torch.zeros(3, dtype=torch.float64))
    with pytest.raises(
        DivergenceError, match=r"in step 17\d\d the state still moves by inf; the step must be a contraction"
    ):
        found.sum().backward()


def test_nan_stays_in_its_row_and_a_tolerance_is_kept() -> None:
    weight, x, _ = contraction()
    poisoned = x.detach().clone()
    poisoned[2] = torch.nan
    healthy, ill = (fixed_point(lambda z: (z @ weight.T + b).tanh(), torch.zeros_like(x)) for b in (x, poisoned))  # noqa: B023
    assert ill[2].isnan().all()
    rest = [0, 1, 3, 4, 5, 6]
    torch.testing.assert_close(ill[rest], healthy[rest], rtol=0, atol=1e-12)
    rough = fixed_point(lambda z: (z @ weight.T + x).tanh(), torch.zeros_like(x), tolerance=1e-3)
    assert 1e-8 < (rough - healthy).abs().max() < 1e-2
