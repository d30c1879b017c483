"""RealNVP: inverse, volume, total probability, and a recipe that fits."""

import math
from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.data import Dataset
from deepcanon.models.flows.realnvp import RealNVP
from deepcanon.nn.dense import dense


def flow(features: int, couplings: int = 5) -> RealNVP:
    """One that is far from the identity, on data with a unit of their own."""
    torch.manual_seed(0)
    model = RealNVP(features, couplings, hidden=(16, 16))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.prepare([Batch(3 * torch.randn(100, features) + 1)])
    return model


@pytest.mark.parametrize(("features", "couplings"), [(2, 1), (2, 6), (5, 4), (7, 5)])
def test_to_data_inverts_to_latent_both_ways(features: int, couplings: int) -> None:
    model = flow(features, couplings)
    x = 3 * torch.randn(64, features) + 1
    with torch.no_grad():
        assert torch.allclose(model.to_data(model.encode(x)), x, atol=1e-5 * float(x.abs().max()))
        z = torch.randn(64, features)
        assert torch.allclose(model.encode(model.to_data(z)), z, atol=1e-5 * float(z.abs().max()))


@pytest.mark.parametrize(("features", "couplings"), [(2, 3), (5, 4)])
def test_the_log_determinant_is_the_jacobian_s(features: int, couplings: int) -> None:
    model = flow(features, couplings).double()
    x = 3 * torch.randn(4, features, dtype=torch.float64)
    _, claimed = model.to_latent(x)
    for row, log_det in zip(x, claimed, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v.unsqueeze(0)).squeeze(0), row)
        assert torch.linalg.slogdet(jacobian).logabsdet.item() == pytest.approx(log_det.item(), abs=1e-10)


@pytest.mark.slow
def test_the_density_integrates_to_one() -> None:
    model = flow(2).double()
    line = torch.linspace(-30, 30, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line)
    with torch.no_grad():
        total = model.log_prob(grid).exp().sum() * (line[1] - line[0]) ** 2
    assert total.item() == pytest.approx(1, abs=1e-3)


def test_every_coupling_changes_the_half_that_the_one_before_it_has_used() -> None:
    """With two couplings every value depends on every other; with one, half of them pass unchanged."""
    x = torch.randn(6, 6)
    one, two = flow(6, 1), flow(6, 2)
    passed = (one.encode(x) - one.standard(x)).abs().amax(0) < 1e-6
    assert passed.tolist() == [True, False] * 3
    assert (two.encode(x) - two.standard(x)).abs().amax(0).min() > 1e-3


def test_without_log_scales_it_preserves_volume() -> None:
    """With limits of zero it is NICE: additive couplings."""
    model = flow(4)
    nn.init.zeros_(model.limits)
    _, log_det = model.to_latent(torch.randn(3, 4))
    assert torch.allclose(log_det, model.standard.log_det().expand(3))


def test_units_of_the_data_only_shift_the_likelihood() -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 3, dtype=torch.float64)
    model = RealNVP(3, 4, (8,)).double()
    model.prepare([Batch(x)])
    plain = model.log_prob(x)
    model.prepare([Batch(100 * x + 7)])
    assert torch.allclose(model.log_prob(100 * x + 7), plain - 3 * math.log(100), atol=1e-5)


def test_the_score_is_the_gradient_that_torch_maps_over_examples() -> None:
    model, x = flow(3).double(), torch.randn(5, 3, dtype=torch.float64)
    mapped = torch.func.vmap(torch.func.grad(lambda row: model.log_prob(row.unsqueeze(0)).sum()))(x)
    torch.testing.assert_close(model.score(x), mapped)


def test_one_feature_has_no_halves() -> None:
    with pytest.raises(UsageError, match="at least 2"):
        RealNVP(1)


def test_images_are_flattened() -> None:
    model = flow(16)
    assert model.log_prob(torch.rand(3, 1, 4, 4)).shape == (3,)


@pytest.mark.slow
def test_the_recipe_fits_moons() -> None:
    """A third of it is enough to come close to the 1.07 nats that it ends with."""
    torch.manual_seed(0)
    result = dc.fit(RealNVP(2), dc.load_data("moons"), epochs=20, quiet=True)
    assert result.test["nll"] < 1.12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moons", "rings"])
def test_it_learns_as_well_as_the_flows_of_zuko_and_nflows(name: str) -> None:
    """The same couplings and widths, steps and batches, and the rate that validation data chose for ours.

    Two seeds leave an error of some 0.02 nats; ``benchmarks/flows.py --quality`` has many more, and more steps.
    """
    data, seeds = dc.load_data(name), (0, 1)
    ours = mean(_learnt(_ours, data, seed) for seed in seeds)
    for theirs in (_of_zuko, _of_nflows):
        assert ours < mean(_learnt(theirs, data, seed) for seed in seeds) + 0.02


Density = tuple[nn.Module, Callable[[Tensor], Tensor]]


def _learnt(make: Callable[[Tensor], Density], data: Dataset[Any], seed: int, steps: int = 150) -> float:
    """The negative log-likelihood of the test data after so many steps."""
    torch.manual_seed(seed)
    x = data.train.x
    module, log_prob = make(x)
    adam = torch.optim.Adam(module.parameters(), lr=5e-3, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for _ in range(steps):
        adam.zero_grad()
        (-log_prob(x[torch.randint(len(x), (128,))]).mean()).backward()
        adam.step()
        decay.step()
    with torch.no_grad():
        return -log_prob(data.split("test").x).mean().item()


def _ours(x: Tensor) -> Density:
    model = RealNVP(2)
    model.prepare([Batch(x)])
    return model, model.log_prob


def _of_zuko(x: Tensor) -> Density:
    zuko = pytest.importorskip("zuko.flows", reason="needs zuko, of deepcanon[oracles]")
    flow = zuko.RealNVP(2, transforms=8, hidden_features=(64, 64))
    return flow, lambda x: flow().log_prob(x)


class _Net(nn.Module):
    """A network as nflows calls it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.net = dense(inputs, outputs, (64, 64))

    def forward(self, x: Tensor, context: None) -> Tensor:
        outputs: Tensor = self.net(x)
        return outputs


def _of_nflows(x: Tensor) -> Density:
    """With ActNorm, since its couplings alone cannot enlarge."""
    transforms, flows, distributions = (
        pytest.importorskip(f"nflows.{part}", reason="needs nflows, of deepcanon[oracles]")
        for part in ("transforms", "flows", "distributions")
    )
    layers: list[nn.Module] = []
    for i in range(8):
        mask = torch.tensor([-1.0, 1.0]) * (-1) ** i
        layers += [transforms.AffineCouplingTransform(mask, _Net), transforms.ActNorm(2)]
    flow = flows.Flow(transforms.CompositeTransform(layers), distributions.StandardNormal([2]))
    return flow, flow.log_prob
