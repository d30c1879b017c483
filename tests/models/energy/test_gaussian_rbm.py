"""The Gaussian machine against the mixture that it is, and against quadrature."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.data import Dataset
from deepcanon.models.energy.gaussian_rbm import GaussianRBM


def machine(features: int, units: int, seed: int = 0, scale: float = 1.0, **arguments: Any) -> GaussianRBM:
    """A machine in double precision with random parameters and units of the data."""
    torch.manual_seed(seed)
    model = GaussianRBM(features, units, **arguments).double()
    with torch.no_grad():
        for tensor in (*model.parameters(), model.standardize.mean):
            tensor.copy_(scale * torch.randn_like(tensor))
        model.standardize.std.copy_(0.5 + torch.rand(features))
    return model


def states(units: int) -> Tensor:
    return torch.tensor(list(product((0.0, 1.0), repeat=units)), dtype=torch.float64)


def mixture(model: GaussianRBM) -> MixtureSameFamily:
    """The density as an explicit mixture, from the definition (1) with the square completed."""
    h, variance = states(model.units), model.log_variance.detach().exp()
    mean = model.visible_bias.detach() + h @ model.weight.detach().T
    log_weight = h @ model.hidden_bias.detach() + (mean.square() / (2 * variance)).sum(1)
    place = model.standardize.mean + model.standardize.std * mean
    spread = (model.standardize.std * variance.sqrt()).expand_as(place)
    return MixtureSameFamily(Categorical(logits=log_weight), Independent(Normal(place, spread), 1))


def points(count: int, features: int) -> Tensor:
    return 2 * torch.randn(count, features, dtype=torch.float64, generator=Generator().manual_seed(3))


@pytest.mark.parametrize(("features", "units"), [(1, 4), (3, 2), (2, 6)])
def test_the_density_is_the_mixture_over_hidden_states(features: int, units: int) -> None:
    model, x = machine(features, units), points(20, features)
    assert model.likelihood_kind == "exact"
    torch.testing.assert_close(model.log_prob(x), mixture(model).log_prob(x), rtol=0, atol=1e-10)


def test_the_density_integrates_to_one_by_quadrature() -> None:
    model = machine(1, 3)
    grid = torch.linspace(-60, 60, 200001, dtype=torch.float64)
    with torch.no_grad():
        mass = torch.trapezoid(model.log_prob(grid.unsqueeze(1)).exp(), grid)
    assert float(mass) == pytest.approx(1, abs=1e-8)


def test_conditionals_are_those_of_the_joint_distribution_by_quadrature() -> None:
    model = machine(1, 2)
    grid = torch.linspace(-60, 60, 200001, dtype=torch.float64)
    with torch.no_grad():
        joint = torch.stack(
            [(-model.joint_energy(grid.unsqueeze(1), h.expand(len(grid), -1))).exp() for h in states(2)]
        )
        mass = torch.trapezoid(joint, grid)
        mean = torch.trapezoid(joint * grid, grid) / mass
        square = torch.trapezoid(joint * grid.square(), grid) / mass
        given_h = model._examples(model._down(states(2))).squeeze(1)
        std = model.standardize.std * (0.5 * model.log_variance).exp()
        torch.testing.assert_close(given_h, mean, rtol=0, atol=1e-8)
        torch.testing.assert_close(std.square().expand(4), square - mean.square(), rtol=1e-6, atol=0)
        some = torch.tensor([90000, 100000, 110000])
        given_v = joint[:, some].T @ states(2) / joint[:, some].sum(0).unsqueeze(1)
        torch.testing.assert_close(model.encode(grid[some].unsqueeze(1)), given_v, rtol=0, atol=1e-10)


def test_the_score_leads_to_the_reconstruction_and_is_the_gradient() -> None:
    model, x = machine(3, 2), points(10, 3).requires_grad_()
    (expected,) = torch.autograd.grad(mixture(model).log_prob(x).sum(), x)
    torch.testing.assert_close(model.score(x), expected)
    variance = model.standardize.std.square() * model.log_variance.exp()
    torch.testing.assert_close((model.reconstruct(x) - x) / variance, expected)


def test_long_chains_give_the_gradient_of_the_likelihood() -> None:
    model = machine(2, 2, gibbs_steps=30, persistent=False, scale=0.7)
    x = points(5, 2)
    exact = torch.autograd.grad(-mixture_with_gradient(model, x), list(model.parameters()))
    rounds, found = 40, []
    for seed in range(rounds):
        torch.manual_seed(seed)
        model.gradient(Batch(x.repeat(100, 1)))
        found.append([parameter.grad for parameter in model.parameters()])
    for place, expected in enumerate(exact):
        estimates = torch.stack([gradients[place] for gradients in found])  # type: ignore[misc]
        error = estimates.std(0) / math.sqrt(rounds)
        assert ((estimates.mean(0) - expected).abs() / error).max() < 5


def mixture_with_gradient(model: GaussianRBM, x: Tensor) -> Tensor:
    """The mean log-density of the mixture, as a function of the machine's parameters."""
    h, variance = states(model.units), model.log_variance.exp()
    mean = model.visible_bias + h @ model.weight.T
    log_weight = h @ model.hidden_bias + (mean.square() / (2 * variance)).sum(1)
    z = model.standardize(x).unsqueeze(1)
    log_normal = -0.5 * ((z - mean).square() / variance + variance.log() + math.log(2 * math.pi)).sum(-1)
    found: Tensor = (log_weight.log_softmax(0) + log_normal).logsumexp(1).mean()
    return found


@pytest.mark.parametrize("learned", [True, False])
def test_the_gradient_by_hand_is_the_gradient_of_the_loss(learned: bool) -> None:
    model = machine(3, 4, chains=7, gibbs_steps=2, learned_variances=learned, scale=0.5)
    assert ("log_variance" in dict(model.named_parameters())) == learned
    batch, begin = Batch(points(5, 3)), {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(1)
    (loss,) = model.loss(batch).values()
    expected = torch.autograd.grad(loss, list(model.parameters()))
    model.load_state_dict(begin)
    torch.manual_seed(1)
    torch.testing.assert_close(model.gradient(batch)()["contrastive_divergence"], loss.detach())
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-8)  # softplus is linear beyond 20


def test_annealing_agrees_with_the_sum_over_hidden_states(monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine(3, 4)
    exact, x = model.exact_log_partition(), points(6, 3)
    assert exact is not None
    density = model.log_prob(x)
    found = model.annealed_log_partition(chains=300, temperatures=200, generator=Generator().manual_seed(0))
    assert 0 < found.error < 0.2
    assert abs(found.value - exact) < 4 * found.error
    monkeypatch.setattr(GaussianRBM, "MOST", 1)
    monkeypatch.setattr(GaussianRBM, "TEMPERATURES", 200)
    assert model.likelihood_kind == "estimate"
    assert list(model.metrics(Batch(x))) == ["reconstruction_mse"]
    estimate = model.log_prob(x, samples=300, generator=Generator().manual_seed(0))
    error = model.log_partition(chains=300, generator=Generator().manual_seed(0)).error
    assert (estimate - density).abs().max() < 5 * error


def test_samples_have_the_moments_of_the_mixture() -> None:
    model = machine(2, 3, scale=0.8)
    drawn, expected = model.sample(4000, generator=Generator().manual_seed(0)), mixture(model)
    error = (expected.variance / len(drawn)).sqrt()
    assert ((drawn.mean(0) - expected.mean).abs() / error).max() < 5
    torch.testing.assert_close(drawn.var(0), expected.variance, rtol=0.1, atol=0)


def test_zeros_and_ones_and_gray_levels_are_refused() -> None:
    model = GaussianRBM(16, 2)
    for wrong in (torch.eye(16), torch.arange(32.0).reshape(2, 16) / 255):
        with pytest.raises(DataError, match="gaussian_rbm is a density of real numbers"):
            model.prepare([Batch(wrong)])
        with pytest.raises(DataError, match="gaussian_rbm is a density of real numbers"):
            model.log_prob(wrong)
    with pytest.raises(UsageError, match="variance must be above 0"):
        GaussianRBM(2, variance=0)


def test_learning_starts_at_the_covariance_of_probabilistic_pca() -> None:
    """Its components are those of the data beyond the noise, in any units, and hidden states are equally likely."""
    torch.manual_seed(0)
    x = torch.randn(400, 3).double() @ torch.randn(3, 5).double() + 0.3 * torch.randn(400, 5).double()
    x = 1 + x * torch.tensor([100.0, 0.01, 1.0, 5.0, 2.0]).double()
    model = GaussianRBM(5, units=4, variance=0.2).double()
    model.prepare([Batch(x[:250]), Batch(x[250:])])
    z = (x - x.mean(0)) / x.std(0, correction=0)
    values, vectors = torch.linalg.eigh(z.T @ z / len(z))
    few = (values > 0.2) & (values >= values[-4])
    assert int(few.sum()) == 3
    exact = vectors[:, few] * (values[few] - 0.2) @ vectors[:, few].T + 0.2 * torch.eye(5).double()
    with torch.no_grad():
        model.weight[:, 3:] = 0  # a unit without a component has small random weights
        model.visible_bias.copy_(-0.5 * model.weight.sum(1))
    start = mixture(model)
    shares = start.mixture_distribution.probs
    means = start.component_distribution.mean
    torch.testing.assert_close(shares, torch.full_like(shares, 1 / 16))
    scale = x.std(0, correction=0)
    torch.testing.assert_close(shares @ means, x.mean(0))
    spread = (means - x.mean(0)) / scale
    torch.testing.assert_close((shares * spread.T) @ spread + 0.2 * torch.eye(5).double(), exact)


@pytest.mark.slow
def test_a_planted_mixture_is_recovered() -> None:
    """Four Gaussians at the corners of a parallelogram, as two hidden units give them, with unequal weights."""
    generator = Generator().manual_seed(0)
    on = (torch.rand(6000, 2, generator=generator) < torch.tensor([0.3, 0.6])).float()
    corners = torch.tensor([[4.0, 1.0], [-1.0, 3.0]])
    x = on @ corners + torch.randn(6000, 2, generator=generator) + 10
    data = dc.from_tensors(x[:4000])
    test = Batch(x[4000:])
    torch.manual_seed(0)
    model = GaussianRBM(2, units=2)
    dc.fit(
        model,
        Dataset(name="planted", kind="points", train=data.train, shape=(2,)),
        quiet=True,
        epochs=60,
        evaluate=False,
    )
    truth = MixtureSameFamily(
        Categorical(torch.tensor([0.7 * 0.4, 0.3 * 0.4, 0.7 * 0.6, 0.3 * 0.6])),
        Independent(Normal(torch.tensor([[0.0, 0], [1, 0], [0, 1], [1, 1]]) @ corners + 10, torch.ones(4, 2)), 1),
    )
    with torch.no_grad():
        gap = truth.log_prob(test.x).mean() - model.eval().log_prob(test.x).mean()
    assert -0.01 < gap < 0.03
    found = mixture(model.double())
    nearest = torch.cdist(found.component_distribution.mean, truth.component_distribution.mean.double()).min(0).values
    assert nearest.max() < 0.3


def test_with_few_hidden_units_chains_and_samples_are_drawn_from_the_mixture_itself() -> None:
    """Two Gaussians 20 standard deviations apart, between which no chain of Gibbs steps would ever cross."""
    torch.manual_seed(0)
    model = GaussianRBM(1, units=1, variance=1.0, learned_variances=False, chains=2000).double()
    with torch.no_grad():
        model.weight.fill_(20.0)
        model.visible_bias.fill_(-10.0)
        model.hidden_bias.fill_(math.log(3))  # three in four are at 10, and the others at -10
    for drawn in (model.negatives(torch.zeros(1, 1, dtype=torch.float64)), model.sample(2000)):
        high = drawn[drawn > 0]
        assert len(high) / 2000 == pytest.approx(0.75, abs=0.04)
        assert float(high.mean()) == pytest.approx(10, abs=0.1)
        assert float(high.std()) == pytest.approx(1, abs=0.07)
