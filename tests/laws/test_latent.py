"""Each law of latent-variable models is shown a model that breaks it; healthy ones keep them all."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal, kl_divergence

from deepcanon.core import Batch, Context, Terms, UsageError, draw
from deepcanon.distributions.pushforward import Pushforward
from deepcanon.laws import latent as laws
from deepcanon.laws import report
from deepcanon.laws.outcome import Law, Outcome
from deepcanon.models.variational.conditional_vae import ConditionalVAE
from deepcanon.models.variational.flow_vae import FlowVAE
from deepcanon.models.variational.full_covariance_vae import FullCovarianceVAE
from deepcanon.models.variational.vae import VAE


def verdict(law: Law, cls: Any) -> Outcome:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return found


def fails(law: Law, cls: Any) -> bool:
    return not verdict(law, cls).holds


class Binary(VAE):
    @classmethod
    def example(cls) -> Any:
        x = torch.rand(32, 6, generator=Generator().manual_seed(0)).round()
        return cls(features=6, latent=1, hidden=(8,), likelihood="bernoulli"), Batch(x)


class Deep(VAE):
    """Too many latent values for an integral."""

    @classmethod
    def example(cls) -> Any:
        return cls(features=4, latent=5, hidden=(8,)), super().example()[1]


class PlainConditional(ConditionalVAE):
    """Its prior is the same for all classes."""

    @classmethod
    def example(cls) -> Any:
        return cls(features=4, classes=3, latent=2, hidden=(8,)), super().example()[1]


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (VAE, 9),
        (Binary, 9),
        (Deep, 7),
        pytest.param(FlowVAE, 9, marks=pytest.mark.slow),
        (FullCovarianceVAE, 9),
        (ConditionalVAE, 9),
        (PlainConditional, 9),
    ],
)
def test_healthy_models_keep_the_laws(model: Any, count: int) -> None:
    torch.manual_seed(0)
    found = laws.check_latent(*model.example())
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == count


class FactorAnalyser(nn.Module):
    """A plain module, not a deepcanon model: linear and Gaussian, so that its evidence has a closed form."""

    def __init__(self, noise: float = 0.7) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, 0.3], [-0.5, 0.8], [0.2, -1.1]]))
        self.noise = noise

    def encode(self, x: Tensor) -> Distribution:
        """The exact posterior's mean with a diagonal spread that is not the posterior's."""
        eye = torch.eye(2, dtype=x.dtype)
        precision = eye + self.weight.T @ self.weight / self.noise**2
        mean = x @ self.weight @ torch.linalg.inv(precision) / self.noise**2
        return Independent(Normal(mean, torch.full_like(mean, 0.6)), 1)

    def decode(self, z: Tensor) -> Distribution:
        mean = z @ self.weight.T
        return Independent(Normal(mean, torch.full_like(mean, self.noise)), 1)

    def log_prob(self, x: Tensor, *, samples: int = 1, generator: Generator | None = None) -> Tensor:
        q = self.encode(x)
        z = draw(q, generator, (samples,))
        prior = Independent(Normal(torch.zeros_like(z), torch.ones_like(z)), 1)
        weights: Tensor = self.decode(z).log_prob(x) + prior.log_prob(z) - q.log_prob(z)
        return weights.logsumexp(0) - math.log(samples)

    def exact(self, x: Tensor) -> Tensor:
        covariance = self.weight @ self.weight.T + self.noise**2 * torch.eye(3, dtype=x.dtype)
        density: Tensor = MultivariateNormal(torch.zeros(3, dtype=x.dtype), covariance).log_prob(x)
        return density

    @classmethod
    def example(cls) -> tuple["FactorAnalyser", Batch]:
        return cls(), Batch(torch.randn(6, 3, generator=Generator().manual_seed(0)))


def test_the_integral_over_the_latent_space_is_the_closed_form_of_a_linear_gaussian_model() -> None:
    module, batch = FactorAnalyser.example()
    view = laws._View(module, batch)
    evidence = view.evidence()
    assert evidence is not None
    assert torch.allclose(evidence, view.module.exact(view.x), atol=1e-8)


def test_the_moments_are_the_closed_form_of_a_linear_gaussian_model() -> None:
    module, batch = FactorAnalyser.example()
    view = laws._View(module, batch)
    mean, variance, *errors = view.moments()
    weight = view.module.weight.detach()
    assert torch.allclose(mean, torch.zeros(3, dtype=torch.float64), atol=1e-8)
    assert torch.allclose(variance, weight.square().sum(1) + 0.49, atol=1e-6)
    assert not any(error.any() for error in errors)


@pytest.mark.slow
def test_a_plain_module_keeps_the_laws_that_apply() -> None:
    found = laws.check_latent(*FactorAnalyser.example())
    assert all(outcome.holds for outcome in found), report(found)
    assert [outcome.law for outcome in found] == [
        "encoding is a distribution",
        "posterior integrates to one",
        "importance bound agrees",
        "bound tightens with samples",
        "bounds stay below the evidence",
    ]


class KLBackwards(VAE):
    """The sign of the divergence is wrong."""

    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reconstruction, kl = super().bound(x)
        return reconstruction, -kl


class KLDoubled(VAE):
    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reconstruction, kl = super().bound(x)
        return reconstruction, 2 * kl


class KLSwapped(VAE):
    """KL(p || q) in place of KL(q || p)."""

    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reconstruction, _ = super().bound(x)
        return reconstruction, kl_divergence(self.prior(), self.encode(x))


class VarianceForScale(VAE):
    """The closed form takes log sigma where log sigma squared belongs."""

    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reconstruction, _ = super().bound(x)
        mean, log_scale = self._encoded(x).chunk(2, -1)
        return reconstruction, 0.5 * (mean.square() + log_scale.exp() - 1 - log_scale).sum(-1)


class EntropyTimesTheSize(VAE):
    """The entropy of the posterior is D/2 times the sum over its D values, in place of half of it."""

    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reconstruction, _ = super().bound(x)
        mean, log_scale = self._encoded(x).chunk(2, -1)
        entropy = mean.shape[-1] / 2 * (1 + 2 * log_scale).sum(-1)
        return reconstruction, 0.5 * (mean.square() + (2 * log_scale).exp()).sum(-1) - entropy


@pytest.mark.slow
def test_a_wrong_divergence_is_caught() -> None:
    assert fails(laws.kl_is_not_negative, KLBackwards)
    for mutant in (KLBackwards, KLDoubled, KLSwapped, VarianceForScale, EntropyTimesTheSize):
        assert fails(laws.kl_agrees_with_draws, mutant), mutant
    assert fails(laws.terms_sum_to_the_negative_bound, KLBackwards)


class SquaredError(VAE):
    """The reconstruction is a squared error that forgets the likelihood's scale and constant."""

    def loss(self, batch: Batch) -> Terms:
        z = self.encode(batch.x).rsample()
        error = (self.decode(z).mean - batch.x).square().sum(-1)
        return {"reconstruction": 0.5 * error.mean(), "kl": super().loss(batch)["kl"]}


class DropsTheDivergence(VAE):
    def loss(self, batch: Batch) -> Terms:
        return {"reconstruction": super().loss(batch)["reconstruction"]}


class Certain(VAE):
    """The reconstruction is made at the posterior's mean, without its noise."""

    def loss(self, batch: Batch) -> Terms:
        q = self.encode(batch.x)
        return super().loss(batch) | {"reconstruction": -self.decode(q.mean).log_prob(batch.x).mean()}


def test_a_loss_that_is_not_the_bound_is_caught() -> None:
    for mutant in (SquaredError, DropsTheDivergence, Certain):
        assert fails(laws.terms_sum_to_the_negative_bound, mutant), mutant


class WeightsUpsideDown(VAE):
    """The importance weights have the wrong sign."""

    def _importance_bound(self, x: Tensor, samples: int) -> Tensor:
        q = self.encode(x)
        z = q.rsample(torch.Size([samples]))
        weights = q.log_prob(z) - self.prior().log_prob(z) - self.decode(z).log_prob(x)
        return weights.logsumexp(0) - math.log(samples)


class WrongProposalSign(VAE):
    """log q is added where it must be taken away."""

    def _importance_bound(self, x: Tensor, samples: int) -> Tensor:
        q = self.encode(x)
        z = q.rsample(torch.Size([samples]))
        weights = self.decode(z).log_prob(x) + self.prior().log_prob(z) + q.log_prob(z)
        return weights.logsumexp(0) - math.log(samples)


class ForgetsToAverage(VAE):
    def _importance_bound(self, x: Tensor, samples: int) -> Tensor:
        return super()._importance_bound(x, samples) + math.log(samples)


class AveragesTwice(VAE):
    """Every sample makes the bound looser."""

    def _importance_bound(self, x: Tensor, samples: int) -> Tensor:
        return super()._importance_bound(x, samples) - 2 * math.log(samples)


class IgnoresSamples(VAE):
    def _importance_bound(self, x: Tensor, samples: int) -> Tensor:
        return super()._importance_bound(x, 1)


@pytest.mark.slow
def test_a_wrong_importance_bound_is_caught() -> None:
    for mutant in (WeightsUpsideDown, WrongProposalSign, ForgetsToAverage, AveragesTwice, IgnoresSamples):
        assert fails(laws.importance_bound_agrees, mutant), mutant
    for mutant in (WeightsUpsideDown, ForgetsToAverage, AveragesTwice):
        assert fails(laws.bounds_stay_below_the_evidence, mutant), mutant
    assert fails(laws.bound_tightens_with_samples, AveragesTwice)


class NoSpread(VAE):
    def encode(self, x: Tensor) -> Distribution:
        mean, _ = self._encoded(x).chunk(2, -1)
        return Independent(Normal(mean, torch.zeros_like(mean), validate_args=False), 1, validate_args=False)


class NegativeSpread(VAE):
    def encode(self, x: Tensor) -> Distribution:
        mean, log_scale = self._encoded(x).chunk(2, -1)
        return Independent(Normal(mean, log_scale, validate_args=False), 1, validate_args=False)


class NoDistribution(VAE):
    def encode(self, x: Tensor) -> Any:
        return self._encoded(x).chunk(2, -1)[0]


def test_an_encoding_that_is_not_a_distribution_is_caught() -> None:
    for mutant in (NoSpread, NegativeSpread, NoDistribution):
        assert fails(laws.encoding_is_a_distribution, mutant), mutant


class SamplesMeans(VAE):
    """Samples without the noise of the likelihood."""

    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return self.decode(draw(self.prior(), generator, (n,))).mean


class SamplesTheCenter(VAE):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return draw(self.decode(torch.zeros(n, self.latent, dtype=torch.float64)), generator)


class SamplesFromAWidePrior(Deep):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return draw(self.decode(3 * draw(self.prior(), generator, (n,))), generator)


def test_samples_that_are_not_the_model_are_caught() -> None:
    for mutant in (SamplesMeans, SamplesTheCenter, SamplesFromAWidePrior):
        assert fails(laws.samples_have_the_moments_of_the_model, mutant), mutant


class ForgetsTheDeterminant(FlowVAE):
    """The density of the posterior is that of its base."""

    def encode(self, x: Tensor) -> Distribution:
        class Wrong(Pushforward):
            def _pushed(self, start: Tensor) -> tuple[Tensor, Tensor]:
                z, log_det = super()._pushed(start)
                return z, torch.zeros_like(log_det)

        q: Any = super().encode(x)
        return Wrong(q.base, _Strong(self.flow), q.context)


class _Strong:
    """A flow with much larger numbers, so that its determinant matters."""

    def __init__(self, flow: Any) -> None:
        torch.manual_seed(0)
        self.flow = copy.deepcopy(flow)
        for parameter in self.flow.parameters():
            parameter.data = torch.randn_like(parameter)

    def __call__(self, x: Tensor, context: Tensor | None = None) -> Any:
        return self.flow(x, context)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Any:
        return self.flow.inverse(z, context)


@pytest.mark.slow
def test_a_posterior_whose_density_is_wrong_is_caught() -> None:
    assert fails(laws.posterior_integrates_to_one, ForgetsTheDeterminant)


class SamplesAnotherClass(ConditionalVAE):
    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        other = self._view((self._labels(n) + 1) % self.classes)
        return ConditionalVAE._sample(_at_home(other), n, generator)

    @classmethod
    def example(cls) -> Any:
        model, batch = super().example()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        return model, batch


def _at_home(model: Any) -> Any:
    model.__class__ = ConditionalVAE
    return model


class PriorOfAnotherClass(SamplesAnotherClass):
    """The loss takes the divergence from the prior of another class."""

    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reconstruction, _ = super().bound(x)
        other = self._view((self._labels(len(x)) + 1) % self.classes)
        return reconstruction, kl_divergence(self.encode(x), other.prior())


def test_another_class_is_caught() -> None:
    assert fails(laws.samples_have_the_moments_of_the_model, SamplesAnotherClass)
    assert fails(laws.kl_agrees_with_draws, PriorOfAnotherClass)


def test_the_kind_needs_its_methods() -> None:
    with pytest.raises(UsageError, match="decode, log_prob is missing"):
        laws.check_latent(type("Half", (nn.Module,), {"encode": lambda self, x: x})(), Batch(torch.zeros(1, 1)))
