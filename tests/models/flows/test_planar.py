"""Planar flows: the inverse by bisection, volumes, gradients, total probability, and a recipe that fits."""

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.flows.planar import PlanarFlow
from deepcanon.nn.planar_flow import Planar


def flow(features: int, transforms: int = 4) -> PlanarFlow:
    """One that is far from the identity, in double precision, on data with a unit of their own."""
    torch.manual_seed(0)
    model = PlanarFlow(features, transforms).double()
    model.prepare([Batch(3 * torch.randn(100, features).double() + 1)])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    return model


def points(count: int, features: int) -> Tensor:
    return 3 * torch.randn(count, features, generator=torch.Generator().manual_seed(5)).double() + 1


@pytest.mark.parametrize("features", [1, 2, 5])
def test_bisection_inverts_it_both_ways(features: int) -> None:
    model, x, z = flow(features), points(40, features), torch.randn(40, features).double()
    with torch.no_grad():
        torch.testing.assert_close(model.to_data(model.encode(x)), x, rtol=0, atol=1e-9)
        torch.testing.assert_close(model.encode(model.to_data(z)), z, rtol=0, atol=1e-9)


def test_in_single_precision_data_come_back_too() -> None:
    model, x = flow(3).float(), points(40, 3).float()
    with torch.no_grad():
        torch.testing.assert_close(model.to_data(model.encode(x)), x, rtol=0, atol=1e-5 * float(x.abs().max()))


@pytest.mark.parametrize("features", [1, 3])
def test_the_log_determinant_is_the_jacobian_s_in_both_directions(features: int) -> None:
    model, x = flow(features), points(5, features)
    z, claimed = model.to_latent(x)
    _, back = model.to_data_with_log_det(z)
    torch.testing.assert_close(back, -claimed)
    for row, log_det in zip(x, claimed, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v.unsqueeze(0)).squeeze(0), row)
        assert torch.linalg.slogdet(jacobian).logabsdet.item() == pytest.approx(log_det.item(), abs=1e-9)


def test_gradients_through_the_bisection_are_finite_differences() -> None:
    model, x = flow(2, 3), points(6, 2)
    names = [name for name, _ in model.named_parameters()]
    for name in names:
        parameter = model.get_parameter(name)
        (found,) = torch.autograd.grad(model.log_prob(x).sum(), parameter)
        step = 1e-5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)).double()
        with torch.no_grad():
            ahead = model.log_prob(x).sum() if parameter.add_(step) is parameter else None
            behind = model.log_prob(x).sum() if parameter.sub_(2 * step) is parameter else None
            parameter.add_(step)
        assert ahead is not None
        assert behind is not None
        assert float((found * step).sum()) == pytest.approx(float(ahead - behind) / 2, rel=1e-4, abs=1e-10), name


@pytest.mark.slow
def test_the_density_integrates_to_one() -> None:
    model = flow(2)
    line = torch.linspace(-40, 40, 401, dtype=torch.float64)
    with torch.no_grad():
        total = model.log_prob(torch.cartesian_prod(line, line)).exp().sum() * (line[1] - line[0]) ** 2
    assert total.item() == pytest.approx(1, abs=1e-3)


def test_samples_come_with_their_log_density() -> None:
    model = flow(3)
    x, claimed = model.drawn(50, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(claimed, model.log_prob(x), rtol=0, atol=1e-8)
    torch.testing.assert_close(x, model.sample(50, generator=torch.Generator().manual_seed(0)))


def test_every_step_is_invertible_however_its_numbers_are() -> None:
    """Of a product w'u far below -1, too, which the paper moves above it."""
    step = Planar(2).double()
    with torch.no_grad():
        step.numbers.copy_(torch.tensor([-5.0, 1.0, 4.0, 1.0, 0.3]))  # u, w and b
        u, w, _, along = (part.detach() for part in step._parts(None))
    assert float((u * w).sum()) == pytest.approx(float(along))
    assert float(along) > -1


@pytest.mark.slow
def test_the_recipe_fits_moons() -> None:
    """A third of the steps for a tenth of the epochs is far better than independent features, of 2.03 nats."""
    torch.manual_seed(0)
    assert dc.fit(PlanarFlow(2, 5), dc.load_data("moons"), epochs=6, lr=5e-2, quiet=True).test["nll"] < 1.8


def test_no_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="transforms must be at least 1"):
        PlanarFlow(2, 0)
