"""JKO steps of a Gaussian: their closed form, exact optimal transport, and the Fokker-Planck equation."""

import math
from itertools import pairwise

import pytest
import torch
from scipy.linalg import sqrtm
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.flows.wasserstein_flow import WassersteinFlow
from deepcanon.nn.transforms import AffineCoupling

MEAN = torch.tensor([1.5, -0.5], dtype=torch.float64)
FACTOR = torch.tensor([[2.0, 0.0], [1.0, 0.4]], dtype=torch.float64)


def gaussian(count: int = 40) -> Tensor:
    """Points whose mean and covariance are exactly those of N(MEAN, FACTOR FACTOR')."""
    z = torch.randn(count, 2, generator=torch.Generator().manual_seed(0)).double()
    z = z - z.mean(0)
    whitened = torch.linalg.solve_triangular(torch.linalg.cholesky(z.T @ z / count), z.T, upper=False)
    points: Tensor = (FACTOR @ whitened).T + MEAN
    return points


def fitted(length: float, steps: int) -> tuple[WassersteinFlow, Tensor]:
    """A flow of linear maps on a Gaussian, at the optimum of every step, and the points; units are left alone."""
    torch.manual_seed(0)
    x = gaussian()
    model = WassersteinFlow(2, steps, length, couplings=2, hidden=()).double()
    for coupling in model.modules():
        if isinstance(coupling, AffineCoupling):
            (layer,) = (each for each in coupling.net.modules() if isinstance(each, nn.Linear))
            layer.weight.register_hook(lambda gradient: gradient * torch.tensor([[0.0], [1.0]]).double())
    batch, every = Batch(x), model.steps
    for number in range(1, steps + 1):  # each given those before it, as the scheme has it
        model.steps = every[:number]
        optimizer = torch.optim.LBFGS(
            every[number - 1].parameters(),
            max_iter=200,
            line_search_fn="strong_wolfe",
            tolerance_grad=1e-12,
            tolerance_change=0,
        )

        def closure(optimizer: torch.optim.Optimizer = optimizer) -> float:
            optimizer.zero_grad()
            loss = torch.stack(list(model.loss(batch).values())).sum()
            loss.backward()
            return float(loss.detach())

        optimizer.step(closure)
    return model, x


def covariance(x: Tensor) -> Tensor:
    centered = x - x.mean(0)
    return centered.T @ centered / len(x)


def stepped(root: Tensor, length: float) -> Tensor:
    """The standard deviations after a step, by the quadratic equation that a minimum of (2) satisfies."""
    found: Tensor = (root + (root.square() + 4 * length * (1 + length)).sqrt()) / (2 * (1 + length))
    return found


@pytest.mark.parametrize("length", [0.3, 2.0])
def test_steps_of_a_gaussian_are_their_closed_form_and_the_optimal_transport(length: float) -> None:
    """Means and standard deviations along the axes of the covariance; the maps cost what the Bures distance says."""
    model, x = fitted(length, 2)
    values, axes = torch.linalg.eigh(covariance(x))
    deviations, mean = values.sqrt(), x.mean(0)
    path = model.path(x)
    for before, after in pairwise(path):
        deviations, mean = stepped(deviations, length), mean / (1 + length)
        torch.testing.assert_close(after.mean(0), mean, rtol=0, atol=1e-5)
        torch.testing.assert_close(covariance(after), (axes * deviations.square()) @ axes.T, rtol=0, atol=1e-5)
        one, other = covariance(before).numpy(), covariance(after).numpy()
        root = sqrtm(one)
        bures = (one + other - 2 * sqrtm(root @ other @ root)).trace().real
        exact = float((before.mean(0) - after.mean(0)).square().sum()) + bures
        assert float((after - before).square().sum(1).mean()) == pytest.approx(exact, abs=1e-5)


@pytest.mark.slow
def test_short_steps_follow_the_fokker_planck_equation() -> None:
    """m(t) = m e^-t and s(t)^2 = 1 + (s^2 - 1) e^-2t along each axis; half of the length halves the error."""
    time, errors = 0.8, []
    for steps in (4, 8):
        model, x = fitted(time / steps, steps)
        values, axes = torch.linalg.eigh(covariance(x))
        end = model.path(x)[-1]
        exact = (axes * (1 + (values - 1) * math.exp(-2 * time))) @ axes.T
        off = (end.mean(0) - x.mean(0) * math.exp(-time)).abs().max(), (covariance(end) - exact).abs().max()
        errors.append([float(each) for each in off])
    for coarse, fine in zip(*errors, strict=True):
        assert 0.4 < fine / coarse < 0.6
        assert fine < 0.1


def test_it_is_inverted_with_the_log_determinant_of_the_jacobian() -> None:
    torch.manual_seed(0)
    model = WassersteinFlow(3, transforms=3, couplings=3, hidden=(8,)).double()
    model.prepare([Batch(3 * torch.randn(100, 3).double() + 1)])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(5, 3).double()
    z, claimed = model.to_latent(x)
    torch.testing.assert_close(model.to_data(z), x, rtol=0, atol=1e-9)
    for row, log_det in zip(x, claimed, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v.unsqueeze(0)).squeeze(0), row)
        assert torch.linalg.slogdet(jacobian).logabsdet.item() == pytest.approx(log_det.item(), abs=1e-9)


def test_a_step_learns_nothing_from_those_after_it() -> None:
    model, batch = WassersteinFlow.example()
    short = WassersteinFlow(2, transforms=1, couplings=2, hidden=(8,))
    short.steps[0].load_state_dict(model.steps[0].state_dict())
    for each in (model, short):
        torch.stack(list(each.loss(batch).values())).sum().backward()
    for own, alone in zip(model.steps[0].parameters(), short.steps[0].parameters(), strict=True):
        assert own.grad is not None
        torch.testing.assert_close(own.grad, alone.grad)


@pytest.mark.slow
def test_the_recipe_fits_moons() -> None:
    """Half of the steps and a tenth of the epochs are better than independent features, of 2.03 nats."""
    torch.manual_seed(0)
    assert dc.fit(WassersteinFlow(2, transforms=3), dc.load_data("moons"), epochs=4, quiet=True).test["nll"] < 1.9


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="step_size must be positive"):
        WassersteinFlow(2, step_size=0.0)
    with pytest.raises(UsageError, match="at least 2"):
        WassersteinFlow(1)
