"""The engine of flows holds conditional ones: a linear flow given covariates is linear regression."""

import math
from typing import Any, Self

import numpy
import pytest
import torch
from scipy import stats
from torch import Generator, Tensor, nn
from torch.distributions import MultivariateNormal

from deepcanon import find, laws
from deepcanon.comparison.measures import bits_per_dimension
from deepcanon.core import Batch, Conditional, Context, DataError, Labeled, UsageError
from deepcanon.models.flows._flow import TransformFlow
from deepcanon.models.flows.maf import MAF
from deepcanon.nn.transforms import ActNorm, AffineCoupling, Chain, Reverse


class Joined(nn.Module):
    """A linear map of a half of the features and the context, with a scale that depends on neither."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.shift = nn.Linear(1 + context, 1)
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, half: Tensor, context: Tensor) -> Tensor:
        shift = self.shift(torch.cat([half, context], 1))
        return torch.cat([self.scale.expand_as(shift), shift], 1)


class ConditionalFlow(Conditional, TransformFlow[Labeled]):
    r"""A flow of two features given real covariates c, each moved by the other and by c.

    .. math:: x = f(z; c), \qquad z \sim N(0, I) \qquad (1)

    References:
        | Learning Likelihoods with Conditional Normalizing Flows (Winkler et al., 2019),
          https://arxiv.org/abs/1912.00042

    Arguments:
        features: The number of features.
        targets: The number of covariates.
    """

    conditioned_on = "covariates"

    def __init__(self, features: int = 2, targets: int = 3) -> None:
        super().__init__(features)
        self.targets = targets
        couplings = [AffineCoupling(Joined(targets), conditional=True) for _ in range(2)]
        steps = [ActNorm(2), couplings[0], Reverse(), couplings[1], ActNorm(2)]
        self.flow = Chain(steps)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        random = Generator().manual_seed(0)
        c, noise = torch.randn(64, 3, generator=random), torch.randn(64, 2, generator=random)
        x = c @ torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 0.5]]) + noise @ torch.tensor([[1.0, 0.8], [0.0, 0.6]]) + 5
        return cls(), Labeled(x, c)

    def context_of(self, batch: Any) -> Context:
        covariates: Tensor = batch.y
        return covariates

    def _check_context(self, context: Context) -> None:
        if not isinstance(context, Tensor) or context.shape[1:] != (self.targets,):
            raise DataError(f"the flow is conditioned on {self.targets} covariates")


def prepared(dtype: torch.dtype = torch.float64) -> tuple[ConditionalFlow, Labeled]:
    torch.manual_seed(0)
    model, batch = ConditionalFlow.example()
    batch = Labeled(batch.x.to(dtype), batch.y.to(dtype))
    model = model.to(dtype)
    model.prepare([batch.select(part) for part in torch.arange(64).split(10)])
    return model, batch


def test_the_likelihood_given_covariates_is_the_gaussian_of_the_linear_map() -> None:
    model, batch = prepared()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
        found = model.log_prob(batch.x, context=batch.y)
        for row, covariates, claimed in zip(batch.x[:5], batch.y[:5], found, strict=False):
            here = model.given(covariates.unsqueeze(0))
            corners = here.to_data(torch.cat([torch.zeros(1, 2), torch.eye(2)]).double())
            mean, factor = corners[0], (corners[1:] - corners[0]).T
            exact = MultivariateNormal(mean, factor @ factor.T)
            torch.testing.assert_close(claimed, exact.log_prob(row))
        drawn = here.sample(50_000, generator=Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(0), mean, rtol=0, atol=0.03)
    torch.testing.assert_close(torch.cov(drawn.T), exact.covariance_matrix, rtol=0.03, atol=0.03)


def test_actnorm_is_fitted_in_the_contexts_of_the_data() -> None:
    model, batch = prepared()
    layers = [layer for layer in model.modules() if isinstance(layer, ActNorm)]
    assert all(bool(layer.fitted) for layer in layers)
    z = model.given(batch.y).encode(batch.x)  # the last one normalizes what the couplings make of x and c
    torch.testing.assert_close(z.mean(0), torch.zeros(2).double(), rtol=0, atol=1e-9)
    torch.testing.assert_close(z.var(0, correction=0), torch.ones(2).double(), rtol=0, atol=1e-9)


def test_training_ends_at_linear_regression_in_closed_form() -> None:
    model, batch = prepared()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        loss = model.loss(batch)["nll"]
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)
    design = torch.cat([batch.y, torch.ones(64, 1).double()], 1)
    rest = batch.x - design @ torch.linalg.lstsq(design, batch.x).solution
    optimum = 0.5 * (float(torch.logdet(rest.T @ rest / 64)) + 2 * math.log(2 * math.pi) + 2)
    assert float(model.loss(batch)["nll"].detach()) == pytest.approx(optimum, abs=1e-5)


def test_a_context_is_asked_for() -> None:
    model, batch = prepared()
    with pytest.raises(UsageError, match="is conditional: give covariates"):
        model.log_prob(batch.x)


@pytest.mark.slow
def test_a_conditional_flow_keeps_all_laws() -> None:
    assert laws.kinds_of(ConditionalFlow) == ["contract", "continuous", "sampler", "flow"]
    torch.manual_seed(0)
    outcomes = laws.check(ConditionalFlow)
    assert not [each for each in outcomes if not each.holds], laws.report(outcomes)


def test_a_uniform_base_gives_the_same_density_and_the_distribution_functions_of_a_gaussian() -> None:
    """Of one autoregressive step with constant scales, u is the Rosenblatt transform, which scipy computes."""
    torch.manual_seed(0)
    model: Any = MAF(2, transforms=1, hidden=()).double()
    step = model.flow.transforms[1]
    step.output.mask[:2] = 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        x = torch.randn(20, 2).double()
        u, log_det = model.to_uniform(x)
        corners = model.to_data(torch.cat([torch.zeros(1, 2), torch.eye(2)]).double())
        mean, factor = corners[0], (corners[1:] - corners[0]).T
        first = stats.norm(mean[0], factor[0, 0]).cdf(x[:, 0])
        center = mean[1] + factor[1, 0] / factor[0, 0] * (x[:, 0] - mean[0])
        second = stats.norm(center, factor[1, 1]).cdf(x[:, 1])
        torch.testing.assert_close(u, torch.from_numpy(numpy.stack([first, second], 1)), rtol=0, atol=1e-10)
        exact = MultivariateNormal(mean, factor @ factor.T).log_prob(x)
        torch.testing.assert_close(log_det, exact)
        torch.testing.assert_close(model.log_prob(x), exact)
        torch.testing.assert_close(model.from_uniform(u), x, rtol=0, atol=1e-7)
    for row, claimed in zip(x[:4], log_det, strict=False):
        jacobian = torch.autograd.functional.jacobian(lambda v: model.to_uniform(v.unsqueeze(0))[0][0], row)
        torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, claimed)


def test_data_of_the_model_become_uniform_and_others_do_not() -> None:
    """By the test of Kolmogorov and Smirnov, as scipy has it, on data drawn without the model."""
    torch.manual_seed(0)
    x = torch.randn(2000, 3).double() @ torch.randn(3, 3).double()
    model = MAF(3, transforms=1, hidden=()).double()
    model.prepare([Batch(x)])
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        loss = model.loss(Batch(x))["nll"]
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)
    with torch.no_grad():
        fresh, wider = (model.to_uniform(part)[0].numpy() for part in (x, 1.3 * x))
    for column in range(3):
        assert stats.kstest(fresh[:, column], "uniform").pvalue > 0.01
        assert stats.kstest(wider[:, column], "uniform").pvalue < 1e-6
    with pytest.raises(DataError, match="rows of 3 numbers between 0 and 1"):
        model.from_uniform(torch.full((1, 3), 1.5).double())


@pytest.mark.parametrize(
    "name", ["maf", "iaf", "planar", "radial", "realnvp", "nice", "continuous_flow", "wasserstein_flow"]
)
def test_bits_per_dimension_are_those_of_the_comparison(name: str) -> None:
    kind: Any = find(name)
    batch = Batch(torch.rand(8, 1, 2, 3, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        metrics = kind(features=6, levels=17).metrics(batch)
        assert set(kind(features=6).metrics(batch)) == {"nll"}
    wanted = bits_per_dimension(-float(metrics["nll"]), dimensions=6, levels=17)
    assert float(metrics["bits_per_dim"]) == pytest.approx(wanted, rel=1e-5)
