"""MAF: maximum likelihood of a Gaussian by its Cholesky factor, zuko on the same weights, total probability."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch
from deepcanon.models.flows.iaf import IAF
from deepcanon.models.flows.maf import MAF
from deepcanon.nn.masked_autoregressive import LIMIT


def flow(features: int) -> MAF:
    """One that is far from the identity, in double precision, on data with a unit of their own."""
    torch.manual_seed(0)
    model = MAF(features, transforms=3, hidden=(16, 16)).double()
    model.prepare([Batch(3 * torch.randn(100, features).double() + 1)])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def points(count: int, features: int) -> Tensor:
    return 3 * torch.randn(count, features, generator=torch.Generator().manual_seed(5)).double() + 1


def test_a_linear_step_fitted_to_data_is_the_cholesky_factor_of_their_covariance() -> None:
    """z = L^-1 (x - mean) with the maximum-likelihood covariance L L'; the scales see no values."""
    torch.manual_seed(0)
    x = torch.randn(400, 4).double() @ torch.randn(4, 4).double() + 2
    model = MAF(4, transforms=1, hidden=()).double()
    model.prepare([Batch(x)])
    step: Any = model.flow.transforms[1]
    step.output.mask[:4] = 0
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=400, line_search_fn="strong_wolfe", tolerance_grad=1e-11)

    def closure() -> float:
        optimizer.zero_grad()
        loss = model.loss(Batch(x))["nll"]
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)
    centered = x - x.mean(0)
    factor = torch.linalg.cholesky(centered.T @ centered / 400)
    with torch.no_grad():
        torch.testing.assert_close(model.encode(x), torch.linalg.solve(factor, centered.T).T, rtol=0, atol=1e-4)
        wanted = factor.diagonal().log().sum() + 2 * math.log(2 * math.pi) + 2
        assert model.loss(Batch(x))["nll"].item() == pytest.approx(wanted.item(), abs=1e-8)


def test_on_the_same_weights_it_has_the_density_of_zuko() -> None:
    """Zuko limits its log-scales in another way, so that the same numbers are put before the limit of each."""
    zuko: Any = pytest.importorskip("zuko.flows", reason="needs zuko, of deepcanon[oracles]")
    theirs = zuko.MAF(4, transforms=3, hidden_features=(16, 16)).double()
    model = MAF(4, transforms=3, hidden=(16, 16)).double()
    x = points(20, 4)
    density = torch.zeros(20).double()
    z = x
    layers: list[Any] = list(model.flow.transforms)[1:]
    for ours, step in zip(layers, theirs.transform.transforms, strict=True):
        ours.backwards = False
        linear = [layer for layer in step.hyper if hasattr(layer, "mask")]
        with torch.no_grad():
            for mine, other in zip([*ours.layers, ours.output], linear, strict=True):
                interleaved = other is linear[-1]  # zuko has shift and scale of a value next to each other
                rows = [part.reshape(4, 2, -1).flip(1).transpose(0, 1).reshape(8, -1) if interleaved else part
                        for part in (other.weight.reshape(other.weight.shape[0], -1), other.mask.double(), other.bias[:, None])]  # noqa: E501 # fmt: skip
                mine.weight.copy_(rows[0])
                mine.mask.copy_(rows[1])
                mine.bias.copy_(rows[2].flatten())
            raw = ours._network(z, None)[:, :4]
            limited = raw / (1 + (raw / math.log(1e-3)).abs())  # as zuko has it
            moved, log_scale = ours.moved(z, None)
            torch.testing.assert_close(log_scale, LIMIT * (raw / LIMIT).tanh())
            there, ladj = step().call_and_ladj(z)
            shift = moved - z * log_scale.exp()
            torch.testing.assert_close(there, z * limited.exp() + shift)
            torch.testing.assert_close(ladj, limited.sum(-1))
            density, z = density + ladj, there
    torch.testing.assert_close(theirs().log_prob(x), density - 0.5 * z.square().sum(-1) - 2 * math.log(2 * math.pi))


@pytest.mark.parametrize("features", [1, 2, 7])
def test_it_is_inverted_both_ways_with_the_log_determinant_of_the_jacobian(features: int) -> None:
    model, x, z = flow(features), points(5, features), torch.randn(5, features).double()
    torch.testing.assert_close(model.to_data(model.encode(x)), x, rtol=0, atol=1e-9)
    torch.testing.assert_close(model.encode(model.to_data(z)), z, rtol=0, atol=1e-9)
    for row, log_det in zip(x, model.to_latent(x)[1], strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v.unsqueeze(0)).squeeze(0), row)
        assert torch.linalg.slogdet(jacobian).logabsdet.item() == pytest.approx(log_det.item(), abs=1e-9)


def test_in_single_precision_data_come_back_too() -> None:
    model, x = flow(6).float(), points(40, 6).float()
    with torch.no_grad():
        torch.testing.assert_close(model.to_data(model.encode(x)), x, rtol=0, atol=1e-5 * float(x.abs().max()))


def test_the_density_integrates_to_one() -> None:
    model = flow(2)
    line = torch.linspace(-40, 40, 801, dtype=torch.float64)
    with torch.no_grad():
        total = model.log_prob(torch.cartesian_prod(line, line)).exp().sum() * (line[1] - line[0]) ** 2
    assert total.item() == pytest.approx(1, abs=1e-3)


def test_iaf_with_its_weights_is_its_inverse() -> None:
    """What one does to noise the other does to data; ActNorm, which stands next to the data in both, is left out."""
    maf = flow(5)
    iaf = IAF(5, transforms=3, hidden=(16, 16)).double()
    pairs: Any = zip(list(iaf.flow.transforms)[1:], reversed(list(maf.flow.transforms)[1:]), strict=True)
    for mine, other in pairs:
        mine.transform.load_state_dict(other.state_dict())
        mine.transform.backwards = other.backwards
        for own, its in zip(mine.modules(), [mine, *other.modules()], strict=True):
            if hasattr(its, "mask"):
                own.mask.copy_(its.mask)
    with torch.no_grad():
        for parameter in maf.flow.transforms[0].parameters():
            parameter.zero_()
        x = points(20, 5)
        torch.testing.assert_close(iaf.to_data(x), maf.encode(x), rtol=0, atol=1e-10)
        torch.testing.assert_close(iaf.encode(x), maf.to_data(x), rtol=0, atol=1e-10)
        torch.testing.assert_close(iaf.to_latent(maf.encode(x))[1], -maf.to_latent(x)[1])


@pytest.mark.slow
def test_the_recipe_fits_moons() -> None:
    """A twentieth of it is far better than independent features, of 2.03 nats."""
    torch.manual_seed(0)
    assert dc.fit(MAF(2), dc.load_data("moons"), epochs=2, quiet=True).test["nll"] < 1.7


@pytest.mark.slow
def test_it_leaves_the_gaussian_of_independent_values() -> None:
    """Where one step alone gains nothing, and those near the identity stay there; the entropy is 1.24 per value."""
    torch.manual_seed(0)
    x = (torch.rand(4096, 8) - 0.5) * math.sqrt(12)
    model = MAF(8)
    model.prepare([Batch(x)])
    adam = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
    for _ in range(300):
        adam.zero_grad()
        model.loss(Batch(x[torch.randint(len(x), (128,))]))["nll"].backward()
        adam.step()
    with torch.no_grad():
        nll = float(model.loss(Batch(x))["nll"])
    assert 8 * math.log(12) / 2 < nll < 4 * math.log(2 * math.pi) + 4 - 0.2
