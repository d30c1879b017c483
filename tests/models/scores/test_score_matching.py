"""Score matching: each objective finds the exact score of a mixture of Gaussians."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from deepcanon.core import Batch, UsageError
from deepcanon.models.scores.score_matching import Objective, ScoreMatching

MEANS = torch.tensor([[-1.0, 0.5], [1.2, -0.3]])
COVARIANCES = torch.tensor([[[0.5, 0.2], [0.2, 0.4]], [[0.3, -0.1], [-0.1, 0.6]]])
SHARES = torch.tensor([0.4, 0.6])


def mixture(extra: float = 0.0) -> MixtureSameFamily:
    """The mixture, with noise of this variance added."""
    spread = COVARIANCES + extra * torch.eye(2)
    return MixtureSameFamily(Categorical(SHARES), MultivariateNormal(MEANS, spread))


def exact_score(x: Tensor, extra: float) -> Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(mixture(extra).log_prob(x).sum(), x)[0]


def learn(model: ScoreMatching, steps: int) -> None:
    """Fresh draws at every step, so that nothing can be learned by heart."""
    model.prepare([Batch(mixture().sample(torch.Size([4000])))])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.stack(list(model.loss(Batch(mixture().sample(torch.Size([512])))).values())).sum().backward()
        optimizer.step()
        decay.step()


@pytest.mark.slow
@pytest.mark.parametrize("objective", get_args(Objective))
def test_it_finds_the_exact_score_of_a_mixture_of_gaussians(objective: Objective) -> None:
    """The denoising objective finds that of the mixture convolved with the noise, which here is large."""
    torch.manual_seed(0)
    model = ScoreMatching(2, hidden=(64, 64), objective=objective, noise=0.4)
    learn(model, steps=600)
    extra = float(model.sigma) ** 2 if objective == "denoising" else 0.0
    x = mixture(extra).sample(torch.Size([4000]))
    wanted = exact_score(x, extra)
    with torch.no_grad():
        error = (model.score(x) - wanted).square().sum(-1).mean() / wanted.square().sum(-1).mean()
    assert error < 0.03
    if objective == "denoising":  # and not the score of the mixture itself
        plain = exact_score(x, 0.0)
        assert (model.score(x) - plain).square().sum(-1).mean() > 4 * error * wanted.square().sum(-1).mean()


def output_layer(model: ScoreMatching) -> nn.Linear:
    layer = model.net[-1]
    assert isinstance(layer, nn.Linear)
    return layer


def linear(objective: Objective, weight: Tensor, features: int = 3) -> ScoreMatching:
    """The score of a Gaussian, x -> W x, for which every objective has a closed form."""
    model = ScoreMatching(features, hidden=(), objective=objective, noise=0.5).double()
    with torch.no_grad():
        layer = output_layer(model)
        layer.weight.copy_(weight)
        layer.bias.zero_()
    return model


def test_the_implicit_objective_has_its_closed_form() -> None:
    torch.manual_seed(0)
    weight = torch.randn(3, 3, dtype=torch.float64)
    x = torch.randn(50, 3, dtype=torch.float64)
    terms = linear("implicit", weight).loss(Batch(x))
    assert torch.allclose(terms["slope"], weight.trace())
    assert torch.allclose(terms["square"], 0.5 * (x @ weight.T).square().sum(-1).mean())


@pytest.mark.slow
def test_the_sliced_objective_is_the_implicit_one_on_average() -> None:
    torch.manual_seed(0)
    model = ScoreMatching(3, hidden=(8,), objective="sliced").double()
    twin = ScoreMatching(3, hidden=(8,), objective="implicit").double()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(20, 3, dtype=torch.float64)
    slopes = torch.stack([model.loss(Batch(x))["slope"] for _ in range(2000)])
    gap = float((slopes.mean() - twin.loss(Batch(x))["slope"]).detach())
    assert abs(gap) < 5 * float(slopes.detach().std()) / math.sqrt(2000)


def test_the_denoising_objective_has_its_closed_form() -> None:
    """E ½|W (x + s e) + e / s|² = ½ (E|W x|² + |s W + I / s|²) for the linear score."""
    torch.manual_seed(0)
    weight = -torch.eye(3, dtype=torch.float64) + 0.2 * torch.randn(3, 3, dtype=torch.float64)
    x = torch.randn(200_000, 3, dtype=torch.float64)
    model = linear("denoising", weight)
    got = model.loss(Batch(x))["denoising"].item()
    noise = 0.5 * weight + torch.eye(3, dtype=torch.float64) / 0.5
    wanted = 0.5 * ((x @ weight.T).square().sum(-1).mean() + noise.square().sum())
    assert got == pytest.approx(wanted.item(), rel=0.01)


def test_units_of_the_data_are_those_of_the_score() -> None:
    """The score of c x is the score of x divided by c."""
    torch.manual_seed(0)
    x = torch.randn(100, 2, dtype=torch.float64)
    model = ScoreMatching(2, hidden=(8,)).double()
    model.prepare([Batch(x)])
    plain = model.score(x)
    model.prepare([Batch(10 * x + 3)])
    assert torch.allclose(model.score(10 * x + 3), plain / 10, atol=1e-6)


@pytest.mark.slow
def test_langevin_samples_have_the_moments_of_a_gaussian() -> None:
    """With the exact score of N(m, s²), Langevin steps of size h give the variance s² / (1 - h²/(4 s²))."""
    torch.manual_seed(0)
    model = ScoreMatching(2, hidden=(), langevin_steps=200, step_size=0.5).double()
    mean, variance = torch.tensor([1.0, -2.0], dtype=torch.float64), 0.8
    with torch.no_grad():
        layer = output_layer(model)
        layer.weight.copy_(-torch.eye(2) / variance)
        layer.bias.copy_(mean / variance)
    x = model.sample(40_000, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(x.mean(0), mean, atol=0.03)
    assert torch.allclose(
        x.var(0), torch.full((2,), variance / (1 - 0.25 / (4 * variance)), dtype=torch.float64), rtol=0.03
    )


def test_kinks_have_no_second_derivative() -> None:
    with pytest.raises(UsageError, match="second derivative"):
        ScoreMatching(2, objective="implicit", activation="relu")
