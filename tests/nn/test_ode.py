"""Differential equations: the steps of scipy, closed forms, the order of the method, and two ways to a gradient."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor, nn

from deepcanon.core import DivergenceError, UsageError
from deepcanon.nn.ode import integrate, integrate_adjoint


def van_der_pol(t: Tensor, y: Tensor) -> Tensor:
    u, v = y.unbind(1)
    return torch.stack([v, 2 * (1 - u**2) * v - u + torch.sin(3 * t)], 1)


def predators(t: Tensor, y: Tensor) -> Tensor:
    u, v = y.unbind(1)
    return torch.stack([u * (1.5 - v), v * (u - 3)], 1)


class Counted:
    """A field that counts its evaluations."""

    def __init__(self, field: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.field, self.count = field, 0

    def __call__(self, t: Tensor, y: Tensor) -> Tensor:
        self.count += 1
        return self.field(t, y)


@pytest.mark.parametrize("field", [van_der_pol, predators])
@pytest.mark.parametrize("times", [(0.0, 0.7, 1.9, 6.0), (6.0, 5.5, 3.0)])
def test_one_example_takes_the_steps_of_scipy(field: Callable[..., Tensor], times: tuple[float, ...]) -> None:
    y = torch.tensor([[1.2, 0.4]], dtype=torch.float64)

    def plain(t: float, y: Any) -> Any:
        return field(torch.tensor([t]).double(), torch.from_numpy(y).unsqueeze(0))[0].numpy()

    theirs = solve_ivp(plain, (times[0], times[-1]), y[0].numpy(), "RK45", t_eval=times, rtol=1e-6, atol=1e-8)
    counted = Counted(field)
    ours = integrate(counted, y, times, rtol=1e-6, atol=1e-8)
    assert counted.count == theirs.nfev
    torch.testing.assert_close(ours[:, 0], torch.from_numpy(theirs.y.T), rtol=0, atol=1e-11)


def test_a_linear_equation_has_the_matrix_exponential() -> None:
    torch.manual_seed(0)
    a, y = torch.randn(4, 4, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    times = [0.0, 0.5, 2.0]
    states = integrate(lambda t, y: y @ a.T, y, times, rtol=1e-10, atol=1e-10)
    for t, state in zip(times, states, strict=True):
        torch.testing.assert_close(state, y @ torch.linalg.matrix_exp(t * a).T, rtol=1e-8, atol=1e-8)


def test_the_method_is_of_order_five() -> None:
    """Steps of a fixed size, since everything is tolerated; half of it leaves a 32nd of the error."""
    y = torch.tensor([[1.0]], dtype=torch.float64)

    def error(steps: int) -> float:
        state = y
        for i in range(steps):
            span = (i / steps, (i + 1) / steps)
            state = integrate(lambda t, y: y * torch.cos(t).unsqueeze(1), state, span, rtol=1e3, atol=1e3)[-1]
        return abs(state.item() - math.exp(math.sin(1.0)))

    orders = [math.log2(error(n) / error(2 * n)) for n in (4, 8, 16)]
    assert orders == pytest.approx([5, 5, 5], abs=0.35)


def test_a_smaller_tolerance_leaves_a_smaller_error() -> None:
    y = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    exact = torch.tensor([[math.cos(5.0), -math.sin(5.0)]], dtype=torch.float64)

    def error(tolerance: float) -> float:
        turned = integrate(lambda t, y: torch.stack([y[:, 1], -y[:, 0]], 1), y, (0, 5), rtol=tolerance, atol=tolerance)
        return float((turned[-1] - exact).abs().max())

    errors = [error(10.0**-k) for k in (3, 5, 7, 9)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-7


def test_an_example_has_the_same_steps_alone_and_next_to_a_stiff_one() -> None:
    rate = torch.tensor([[1.0], [300.0], [0.0]], dtype=torch.float64)
    y = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    together = integrate(lambda t, y: -rate * y, y, (0.0, 0.3, 1.0))
    for i in range(3):
        alone = integrate(lambda t, y, i=i: -rate[i] * y, y[i : i + 1], (0.0, 0.3, 1.0))  # type: ignore[misc]
        assert torch.equal(together[:, i], alone[:, 0])
    torch.testing.assert_close(together[-1], y * torch.exp(-rate), rtol=0, atol=1e-5)


def test_backwards_it_comes_to_where_it_began() -> None:
    y = torch.tensor([[1.2, 0.4], [3.0, 1.0]], dtype=torch.float64)
    there = integrate(predators, y, (0.0, 3.0), rtol=1e-10, atol=1e-10)[-1]
    back = integrate(predators, there, (3.0, 0.0), rtol=1e-10, atol=1e-10)[-1]
    torch.testing.assert_close(back, y, rtol=0, atol=1e-7)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 2)
        self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.last(torch.tanh(self.first(torch.cat([y, t.unsqueeze(1)], 1))))
        return out


def test_backpropagation_through_the_steps_and_the_adjoint_method_agree() -> None:
    torch.manual_seed(0)
    net, y = Net().double(), torch.randn(5, 2, dtype=torch.float64)
    times, weight = (1.0, 0.6, 0.0), torch.randn(3, 5, 2, dtype=torch.float64)
    found = []
    for adjoint in (False, True):
        start = y.clone().requires_grad_()
        if adjoint:
            states = integrate_adjoint(net, start, times, net.parameters(), rtol=1e-9, atol=1e-9)
        else:
            states = integrate(net, start, times, rtol=1e-9, atol=1e-9)
        loss = (weight * states.sin()).sum()
        found.append(torch.autograd.grad(loss, [start, *net.parameters()], allow_unused=True, materialize_grads=True))
    for through, by_adjoint in zip(*found, strict=True):
        torch.testing.assert_close(by_adjoint, through, rtol=1e-6, atol=1e-7)
    assert float(found[0][2].abs().max()) > 0.1


@pytest.mark.parametrize("adjoint", [False, True])
def test_gradients_are_those_of_the_closed_form(adjoint: bool) -> None:
    """Of y0 exp(r t): t y0 exp(r t) by r, and exp(r t) by y0."""
    rate = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    y = torch.tensor([[2.0]], dtype=torch.float64, requires_grad=True)
    solve = integrate_adjoint if adjoint else integrate
    given: Any = {"parameters": [rate]} if adjoint else {}
    end = solve(lambda t, y: rate * y, y, (0.0, 1.5), rtol=1e-10, atol=1e-10, **given)[-1]
    by_rate, by_start = torch.autograd.grad(end.sum(), [rate, y])
    assert by_rate.item() == pytest.approx(1.5 * 2 * math.exp(1.05), rel=1e-8)
    assert by_start.item() == pytest.approx(math.exp(1.05), rel=1e-8)


def test_single_precision_reaches_its_own_accuracy() -> None:
    end = integrate(lambda t, y: -y, torch.ones(1, 1), (0.0, 1.0), rtol=1e-12, atol=1e-12)[-1]
    assert end.item() == pytest.approx(math.exp(-1), abs=1e-6)


@pytest.mark.parametrize(
    "field", [lambda t, y: y**2, lambda t, y: y * math.nan], ids=["infinite at time 1", "not a number"]
)
def test_what_has_no_solution_is_said(field: Callable[..., Tensor]) -> None:
    with pytest.raises(DivergenceError, match="was not solved from 0 to 2"):
        integrate(field, torch.ones(2, 1), (0.0, 2.0))


@pytest.mark.parametrize("times", [[0.0], [0.0, 1.0, 0.5], [1.0, 1.0]])
def test_times_must_go_one_way(times: list[float]) -> None:
    with pytest.raises(UsageError, match="two or more times that rise, or fall"):
        integrate(lambda t, y: y, torch.ones(1, 1), times)
