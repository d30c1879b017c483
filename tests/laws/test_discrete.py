"""Each law of discrete distributions is shown a model that breaks it; healthy ones keep them all."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from deepcanon.core import Batch, Context, Terms, UsageError
from deepcanon.laws import discrete as laws
from deepcanon.laws import report
from deepcanon.laws.outcome import Law
from deepcanon.models.autoregressive.conditional_pixelcnn import ConditionalPixelCNN
from deepcanon.models.autoregressive.nade import NADE
from deepcanon.models.autoregressive.pixelcnn import PixelCNN
from deepcanon.models.energy.rbm import RBM
from deepcanon.models.variational.vae import VAE


def fails(law: Law, cls: Any) -> bool:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return not found.holds


class Dice(nn.Module):
    """A plain module, no deepcanon model: independent dice with three faces."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(4, 3))

    def log_prob(self, x: Tensor) -> Tensor:
        shares = self.logits.log_softmax(-1).expand(len(x), -1, -1)
        return shares.gather(2, x.unsqueeze(2)).sum((1, 2))

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return self.logits.softmax(-1).multinomial(n, replacement=True, generator=generator).T

    @classmethod
    def example(cls) -> tuple["Dice", Batch]:
        return cls(), Batch(torch.randint(3, (20, 4), generator=Generator().manual_seed(0)))


class BinaryVAE(VAE):
    @classmethod
    def example(cls) -> Any:
        x = torch.rand(32, 6, generator=Generator().manual_seed(0)).round()
        return cls(features=6, latent=1, hidden=(8,), likelihood="bernoulli"), Batch(x)


class LargeRBM(RBM):
    """Estimated only, on inputs that cannot be written out."""

    MOST = 10

    @classmethod
    def example(cls) -> Any:
        return cls(20, 3), Batch(torch.rand(8, 20, generator=Generator().manual_seed(0)).round())


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (NADE, 7), (RBM, 6), (Dice, 5), (BinaryVAE, 3), (LargeRBM, 1), (PixelCNN, 7), (ConditionalPixelCNN, 7),
    ],
)  # fmt: skip
def test_healthy_models_keep_the_laws(model: Any, count: int) -> None:
    torch.manual_seed(0)
    found = laws.check_discrete(*model.example())
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == count


class ProbabilitiesAsLogits(NADE):
    """The fault of a published NADE: the sigmoid is applied twice."""

    def logits(self, x: Tensor) -> Tensor:
        return super().logits(x).sigmoid() * (1 + x)


class SeesItself(NADE):
    """The hidden layer of a value has seen the value."""

    def logits(self, x: Tensor) -> Tensor:
        a = self.hidden_bias + torch.cumsum(x.unsqueeze(2) * self.weight, 1)
        return (a.sigmoid() * self.readout).sum(-1) + self.visible_bias


class MeanOverValues(NADE):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return super().log_prob(x) / self.features


class ForgetsTheHiddenUnits(RBM):
    """The constant of a machine without couplings."""

    def exact_log_partition(self, over: Any = None) -> Tensor | None:
        return nn.functional.softplus(self.visible_bias).sum() + nn.functional.softplus(self.hidden_bias).sum()


class SeesItsPixel(PixelCNN):
    """The first layer has seen the pixel that it predicts."""

    def logits(self, x: Tensor) -> Tensor:
        return super().logits(x) * (1 + 0.5 * x).unsqueeze(1)


class SumsOverClasses(ConditionalPixelCNN):
    """Every class has the probabilities of all classes together."""

    def _log_prob(self, x: Tensor) -> Tensor:
        classes = [self._view(torch.tensor([label]))._of(x) for label in range(self.classes)]
        return torch.stack(classes).logsumexp(0)

    def _of(self, x: Tensor) -> Tensor:
        return super()._log_prob(x)


@pytest.mark.parametrize("mutant", [SeesItsPixel, SumsOverClasses])
def test_probabilities_of_images_that_do_not_sum_to_one_are_caught(mutant: Any) -> None:
    assert fails(laws.probabilities_sum_to_one, mutant)


class DrawsMirrored(ConditionalPixelCNN):
    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return super()._sample(n, generator).flip(3)


def test_samples_of_images_that_are_turned_are_caught() -> None:
    assert fails(laws.samples_follow_the_probabilities, DrawsMirrored)


class TakesHalves(PixelCNN):
    def check_values(self, x: Tensor) -> None:
        return


def test_a_model_of_gray_levels_that_takes_values_between_them_is_caught() -> None:
    assert fails(laws.other_values_are_refused, TakesHalves)


@pytest.mark.parametrize("mutant", [SeesItself, MeanOverValues, ForgetsTheHiddenUnits, ProbabilitiesAsLogits])
def test_probabilities_that_do_not_sum_to_one_are_caught(mutant: Any) -> None:
    assert fails(laws.probabilities_sum_to_one, mutant)


class UpperBound(BinaryVAE):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return torch.zeros(len(x)) - 1


def test_a_lower_bound_with_too_much_mass_is_caught() -> None:
    assert fails(laws.probabilities_sum_to_one, UpperBound)


class Likely(NADE):
    """Gives the negative log-likelihood."""

    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return -super().log_prob(x)


class PerValue(NADE):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return -binary_cross_entropy_with_logits(self.logits(x), x, reduction="none")


@pytest.mark.parametrize("mutant", [Likely, PerValue])
def test_log_probabilities_that_are_none_are_caught(mutant: Any) -> None:
    assert fails(laws.log_probabilities_are_not_positive, mutant)


class SamplesWithoutLooking(NADE):
    """Draws each value as if those before it had been 0."""

    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        means = self.forward(torch.zeros(n, self.features, dtype=self.weight.dtype)).detach()
        return torch.bernoulli(means, generator=generator)


class SamplesModes(NADE):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return (self.forward(torch.zeros(n, self.features, dtype=self.weight.dtype)) > 0.5).double()


class SamplesMeans(NADE):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return self.forward(super().sample(n, generator=generator)).detach()


class StopsEarly(RBM):
    """Takes the draw of the base for a sample."""

    MCMC_STEPS = 0


@pytest.mark.parametrize("mutant", [SamplesWithoutLooking, SamplesModes, SamplesMeans, StopsEarly])
def test_samples_of_another_distribution_are_caught(mutant: Any) -> None:
    assert fails(laws.samples_follow_the_probabilities, mutant)


class ComparesWithTheBatch(NADE):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        found = super().log_prob(x)
        return found - found.logsumexp(0)


class LooksAtTheFirst(NADE):
    def logits(self, x: Tensor) -> Tensor:
        return super().logits(x) + x[0].mean()


@pytest.mark.parametrize("mutant", [ComparesWithTheBatch, LooksAtTheFirst])
def test_probabilities_that_depend_on_other_examples_are_caught(mutant: Any) -> None:
    assert fails(laws.duplicates_change_nothing, mutant)


class SumOverExamples(NADE):
    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x).sum()}


class InBits(NADE):
    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x).mean() / 0.6931}


@pytest.mark.parametrize("mutant", [SumOverExamples, InBits])
def test_a_loss_that_is_not_a_log_probability_is_caught(mutant: Any) -> None:
    assert fails(laws.loss_is_the_negative_log_likelihood, mutant)


class Detached(NADE):
    """The hidden layer gets no gradient through its weights."""

    def logits(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            h = (self.hidden_bias + torch.cumsum(x.unsqueeze(2) * self.weight, 1)).sigmoid()
        return (h * self.readout).sum(-1) + self.visible_bias


def test_a_gradient_that_is_not_the_slope_is_caught() -> None:
    assert fails(laws.gradient_is_the_slope, Detached)


class TakesGray(NADE):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return -binary_cross_entropy_with_logits(self.logits(x), x, reduction="none").sum(-1)


def test_a_probability_of_gray_values_is_caught() -> None:
    assert fails(laws.other_values_are_refused, TakesGray)


def test_the_kind_needs_its_method() -> None:
    with pytest.raises(UsageError, match="log_prob, which is missing"):
        laws.check_discrete(nn.Linear(1, 1), Batch(torch.zeros(1, 1)))
