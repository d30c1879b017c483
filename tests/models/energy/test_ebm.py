"""The energy-based model: a known density is recovered, and its pieces against closed forms and quadrature."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.energy.ebm import EBM


class Quadratic(nn.Module):
    """A network whose energy is that of a Gaussian."""

    precision: Tensor

    def __init__(self, precision: Tensor) -> None:
        super().__init__()
        self.register_buffer("precision", precision)
        self.shift = nn.Parameter(torch.zeros(len(precision), dtype=precision.dtype))

    def forward(self, z: Tensor) -> Tensor:
        centered = z - self.shift
        return 0.5 * (centered @ self.precision * centered).sum(1)


def gaussian(features: int, **arguments: Any) -> tuple[EBM, MultivariateNormal]:
    """A model with a quadratic network, and the Gaussian that it is, in the units of the data."""
    torch.manual_seed(0)
    model = EBM(features, hidden=(4,), **arguments).double()
    mixing = torch.randn(features, features, dtype=torch.float64)
    precision = mixing @ mixing.T + torch.eye(features, dtype=torch.float64)
    model.net = Quadratic(precision)  # type: ignore[assignment]
    model.standardize.mean.copy_(torch.randn(features))
    model.standardize.std.copy_(0.5 + torch.rand(features))
    scale = model.standardize.std
    whole = precision + torch.eye(features, dtype=torch.float64) / model.base_std**2
    return model, MultivariateNormal(model.standardize.mean, precision_matrix=whole / torch.outer(scale, scale))


def points(count: int, features: int) -> Tensor:
    return torch.randn(count, features, dtype=torch.float64, generator=Generator().manual_seed(3))


@pytest.mark.parametrize("features", [1, 2])
def test_a_quadratic_energy_is_a_gaussian_with_its_log_z_on_the_grid(features: int) -> None:
    model, exact = gaussian(features)
    x = points(10, features)
    assert model.likelihood_kind == "exact"
    torch.testing.assert_close(model.log_prob(x).detach(), exact.log_prob(x))


def test_the_score_is_the_gradient_of_the_log_density() -> None:
    model, exact = gaussian(3)
    x = points(8, 3).requires_grad_()
    (expected,) = torch.autograd.grad(exact.log_prob(x).sum(), x)
    torch.testing.assert_close(model.score(x), expected)


@pytest.mark.slow
def test_annealing_and_samples_are_those_of_the_gaussian() -> None:
    model, exact = gaussian(3)
    assert model.likelihood_kind == "estimate"
    found = model.annealed_log_partition(chains=100, temperatures=100, generator=Generator().manual_seed(0))
    x = points(5, 3)
    constant = (-model.energy(x) - exact.log_prob(x)).detach()
    assert abs(found.value - constant[0]) < 4 * found.error
    assert 0 < found.error < 0.2
    model.MCMC_STEPS = 60
    drawn = model.sample(2000, generator=Generator().manual_seed(0))
    error = (exact.variance / len(drawn)).sqrt()
    assert ((drawn.mean(0) - exact.mean).abs() / error).max() < 4.5
    torch.testing.assert_close(drawn.var(0), exact.variance, rtol=0.15, atol=0)


def test_long_chains_give_the_gradient_of_the_likelihood() -> None:
    """Of the shift of a one-dimensional Gaussian; Langevin steps are short enough that their bias is small."""
    model, _ = gaussian(1, langevin_steps=200, step_size=0.15, buffer_size=0, penalty=0.0)
    x = points(4000, 1)
    (shift,) = model.net.parameters()
    wanted = torch.autograd.grad(-model.log_prob(x).mean(), [shift])[0]
    found = torch.autograd.grad(model.loss(Batch(x))["contrastive_divergence"], [shift])[0]
    assert wanted.abs().item() > 0.1
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.1)


def test_the_replay_buffer_goes_on_in_training_alone_and_short_runs_have_none() -> None:
    model = EBM(2, hidden=(4,), buffer_size=16, langevin_steps=2)
    before = model.replay.clone()
    model.eval().loss(Batch(points(8, 2).float()))
    assert torch.equal(model.replay, before)
    model.train().loss(Batch(points(8, 2).float()))
    moved = (model.replay != before).any(1)
    assert 1 <= int(moved.sum()) <= 8
    assert "replay" not in dict(EBM(2, buffer_size=0).named_buffers())


def test_any_model_with_one_output_is_the_energy() -> None:
    torch.manual_seed(0)
    inner = dc.find("linear_regression")(features=2, targets=1)
    model, x = EBM(2, model=inner).double(), points(6, 2)
    expected = inner(x).squeeze(1) + 0.5 * x.square().sum(1) / 4
    torch.testing.assert_close(model.energy(x), expected)
    two = EBM(2, model=dc.find("linear_regression")(features=2, targets=2)).double()
    with pytest.raises(UsageError, match="an energy is one number for each example; the network gives"):
        two.energy(x)
    with pytest.raises(UsageError, match="used where no model is given"):
        EBM(2, hidden=(8,), model=inner)


@pytest.mark.slow
def test_a_known_density_is_recovered() -> None:
    """Three Gaussians: the divergence from the truth, by a sum over a grid, is below 0.05 nats."""
    means = torch.tensor([[-2.0, 0.0], [2.0, 1.0], [0.5, -2.0]])
    spread = torch.tensor([[0.7, 0.7], [0.6, 1.0], [0.8, 0.5]])
    truth = MixtureSameFamily(Categorical(torch.tensor([0.5, 0.3, 0.2])), Independent(Normal(means, spread), 1))
    torch.manual_seed(0)
    x = truth.sample(torch.Size([4000]))
    model = EBM(2)
    dc.fit(model, dc.from_tensors(x), quiet=True, epochs=30, evaluate=False)
    line = torch.linspace(-8, 8, 300)
    grid = torch.cartesian_prod(line, line)
    with torch.no_grad():
        log_p, log_q = truth.log_prob(grid), model.eval().log_prob(grid)
    cell = float(line[1] - line[0]) ** 2
    assert (log_p.exp().sum() * cell).item() == pytest.approx(1, abs=1e-3)
    assert (log_p.exp() * (log_p - log_q)).sum().item() * cell < 0.05


def test_what_is_no_density_is_refused() -> None:
    with pytest.raises(DataError, match="ebm is a density of real numbers"):
        EBM(2).log_prob(torch.eye(2))
    for wrong in ({"step_size": 0}, {"base_std": -1}, {"penalty": -1}, {"reinitialized": 2}, {"step_size": math.nan}):
        with pytest.raises(UsageError, match="must be above 0"):
            EBM(2, **wrong)
