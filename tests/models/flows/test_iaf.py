"""IAF: samples in one pass with their density, data value by value, gradients of the likelihood, total probability."""

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch
from deepcanon.models.flows.iaf import IAF
from deepcanon.nn.masked import MaskedLinear


def flow(features: int) -> IAF:
    """One that is far from the identity, in double precision, on data with a unit of their own."""
    torch.manual_seed(0)
    model = IAF(features, transforms=3, hidden=(16, 16)).double()
    model.prepare([Batch(3 * torch.randn(100, features).double() + 1)])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def points(count: int, features: int) -> Tensor:
    return 3 * torch.randn(count, features, generator=torch.Generator().manual_seed(5)).double() + 1


@pytest.mark.parametrize("features", [1, 2, 7])
def test_it_is_inverted_both_ways_with_the_log_determinant_of_the_jacobian(features: int) -> None:
    model, x, z = flow(features), points(5, features), torch.randn(5, features).double()
    torch.testing.assert_close(model.to_data(model.encode(x)), x, rtol=0, atol=1e-8)
    torch.testing.assert_close(model.encode(model.to_data(z)), z, rtol=0, atol=1e-8)
    for row, log_det in zip(x, model.to_latent(x)[1], strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v.unsqueeze(0)).squeeze(0), row)
        assert torch.linalg.slogdet(jacobian).logabsdet.item() == pytest.approx(log_det.item(), abs=1e-8)


def test_samples_come_with_their_density_in_one_pass() -> None:
    model, passes = flow(6), []
    for layer in model.modules():
        if isinstance(layer, MaskedLinear) and layer.out_features == 12:
            layer.register_forward_hook(lambda *_: passes.append(1))
    with torch.no_grad():
        x, claimed = model.drawn(50, generator=torch.Generator().manual_seed(0))
    assert len(passes) == 3
    with torch.no_grad():
        torch.testing.assert_close(claimed, model.log_prob(x), rtol=0, atol=1e-8)


def test_gradients_of_the_likelihood_are_finite_differences() -> None:
    model, x = flow(4), points(8, 4)
    names = [name for name, _ in model.named_parameters()]
    found = torch.autograd.grad(model.log_prob(x).sum(), [model.get_parameter(name) for name in names])
    for name, gradient in zip(names, found, strict=True):
        parameter, along = model.get_parameter(name), torch.randn_like(gradient)
        with torch.no_grad():
            ends = []
            for step in (1e-6, -2e-6):
                parameter.add_(step * along)
                ends.append(float(model.log_prob(x).sum()))
            parameter.add_(1e-6 * along)
        slope = (ends[0] - ends[1]) / 2e-6
        assert float((gradient * along).sum()) == pytest.approx(slope, rel=1e-4, abs=1e-5), name


@pytest.mark.slow
def test_the_density_integrates_to_one() -> None:
    model = flow(2)
    line = torch.linspace(-40, 40, 801, dtype=torch.float64)
    with torch.no_grad():
        total = model.log_prob(torch.cartesian_prod(line, line)).exp().sum() * (line[1] - line[0]) ** 2
    assert total.item() == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_the_recipe_fits_moons() -> None:
    """A twentieth of it is far better than independent features, of 2.03 nats."""
    torch.manual_seed(0)
    assert dc.fit(IAF(2), dc.load_data("moons"), epochs=2, quiet=True).test["nll"] < 1.7
