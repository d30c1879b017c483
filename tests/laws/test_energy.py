"""Each law of energies is shown a machine that breaks it, the slips of textbooks among them; healthy ones keep them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

from deepcanon.core import Batch, Incomplete, Terms, UsageError
from deepcanon.laws import energy as laws
from deepcanon.laws import report
from deepcanon.laws.outcome import Law
from deepcanon.models.energy._lattice import bonds
from deepcanon.models.energy.gaussian_mrf import GaussianMRF
from deepcanon.models.energy.gaussian_rbm import GaussianRBM
from deepcanon.models.energy.hopfield import Hopfield
from deepcanon.models.energy.ising import Ising
from deepcanon.models.energy.modern_hopfield import ModernHopfield
from deepcanon.models.energy.ratings_rbm import RatingsRBM
from deepcanon.models.energy.rbm import RBM


def fails(law: Law, cls: Any) -> bool:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return not found.holds


class Contrastive(RBM):
    @classmethod
    def example(cls) -> Any:
        _, batch = super().example()
        return cls(features=6, units=4, persistent=False), batch


class Large(RBM):
    """Too many states to write out."""

    MOST = 10

    @classmethod
    def example(cls) -> Any:
        return cls(20, 3), Batch(torch.rand(8, 20, generator=Generator().manual_seed(0)).round())


class Bowl(nn.Module):
    """A plain module with an energy and nothing else."""

    def energy(self, x: Tensor) -> Tensor:
        return x.square().sum(-1)

    @classmethod
    def example(cls) -> tuple["Bowl", Batch]:
        return cls(), Batch(torch.randn(8, 3))


class Alone(nn.Module):
    """A machine of visible units only, written without this library; it says nothing of its likelihood kind."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([0.5, -1.0, 0.2]))

    def energy(self, x: Tensor) -> Tensor:
        return -x @ self.bias

    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return -self.energy(x) - softplus(self.bias).sum()

    def loss(self, batch: Batch) -> Terms:
        seen = torch.bernoulli(self.bias.sigmoid().expand(len(batch), -1)).detach()
        return {"contrastive_divergence": self.energy(batch.x).mean() - self.energy(seen).mean()}

    @classmethod
    def example(cls) -> tuple["Alone", Batch]:
        return cls(), Batch(torch.rand(16, 3, generator=Generator().manual_seed(0)).round())


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (RBM, 8),
        (Contrastive, 8),
        (Large, 5),
        (GaussianRBM, 7),
        pytest.param(RatingsRBM, 9, marks=pytest.mark.slow),
        (Hopfield, 2),
        (ModernHopfield, 3),
        (GaussianMRF, 3),
        (Ising, 6),
        (Bowl, 2),
        (Alone, 4),
    ],
)
def test_healthy_models_keep_the_laws(model: Any, count: int) -> None:
    torch.manual_seed(0)
    found = laws.check_energy(*model.example())
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == count


class PerUnit(RBM):
    def energy(self, x: Tensor) -> Tensor:
        return -softplus(self._up(x))


class OfTheBatch(RBM):
    def energy(self, x: Tensor) -> Tensor:
        return super().energy(x) - super().energy(x).mean()


class Overflows(RBM):
    def energy(self, x: Tensor) -> Tensor:
        return super().energy(x) * torch.inf


@pytest.mark.parametrize("mutant", [PerUnit, OfTheBatch, Overflows])
def test_energies_that_are_not_one_number_per_example_are_caught(mutant: Any) -> None:
    assert fails(laws.each_example_has_one_finite_energy, mutant)


class Reversed(RBM):
    """p = exp(+E) / Z."""

    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        constant = self.exact_log_partition()
        assert constant is not None
        return self.energy(x) - constant


class Hotter(RBM):
    def energy(self, x: Tensor) -> Tensor:
        return 2 * super().energy(x)

    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return RBM.log_prob(self, x) + 0.5 * self.energy(x)


@pytest.mark.parametrize("mutant", [Reversed, Hotter])
def test_energies_that_are_not_minus_log_probabilities_are_caught(mutant: Any) -> None:
    assert fails(laws.low_energy_is_high_probability, mutant)


class ForgetsTheBiases(RBM):
    """Z of a machine without hidden biases."""

    def exact_log_partition(self, over: Any = None) -> Tensor | None:
        return super().exact_log_partition(over) - softplus(self.hidden_bias).sum()  # type: ignore[operator]


class WithoutItsConstant(Alone):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return -self.energy(x)


def test_a_constant_that_does_not_normalize_is_caught() -> None:
    assert fails(laws.the_constant_normalizes, WithoutItsConstant)
    assert fails(laws.the_constant_normalizes, ForgetsTheBiases)


class NormalizedOverAll(RatingsRBM):
    """Z of a machine in which nothing is missing."""

    def _log_prob(self, x: Tensor) -> Tensor:
        constant = self.exact_log_partition()
        assert constant is not None
        return -self.energy(x) - constant


class TakesMissingForTheLowest(RatingsRBM):
    """A missing rating counts as one star."""

    def _states(self, x: Tensor) -> Tensor:
        return super()._states(x.nan_to_num(1.0))


@pytest.mark.parametrize("mutant", [NormalizedOverAll, TakesMissingForTheLowest])
def test_missing_entries_that_count_are_caught(mutant: Any) -> None:
    assert fails(laws.what_is_there_sums_to_one, mutant)
    model, batch = mutant.example()
    assert laws.what_is_there_sums_to_one(model, Batch(batch.x)) is None
    assert isinstance(batch, Incomplete)


class CountsTwice(GaussianRBM):
    """E = v^2 / sigma^2 without the half, in the joint energy only."""

    def joint_energy(self, x: Tensor, h: Tensor) -> Tensor:
        return super().joint_energy(x, h) + self._base_measure(self._states(x))


class WithoutHiddenBiases(RBM):
    def joint_energy(self, x: Tensor, h: Tensor) -> Tensor:
        return super().joint_energy(x, h) + h @ self.hidden_bias


class InItsOwnUnits(GaussianRBM):
    """A change of units that the energy counts and the joint energy does not."""

    def joint_energy(self, x: Tensor, h: Tensor) -> Tensor:
        return super().joint_energy(x, h) - self._log_volume()

    @classmethod
    def example(cls) -> Any:
        model, batch = super().example()
        model.prepare([batch])
        return model, batch


@pytest.mark.parametrize("mutant", [CountsTwice, WithoutHiddenBiases, InItsOwnUnits])
def test_an_energy_that_is_not_the_sum_over_hidden_states_is_caught(mutant: Any) -> None:
    assert fails(laws.hidden_units_sum_out, mutant)


class UpsideDown(Bowl):
    """Visible units with -x'x/2, where Gaussian ones have +x'x/2."""

    def energy(self, x: Tensor) -> Tensor:
        return -0.5 * super().energy(x)


class Gutter(Bowl):
    """Falls along the first axis, rises along the others."""

    def energy(self, x: Tensor) -> Tensor:
        return super().energy(x[:, 1:]) - x[:, 0].square() / 4


def test_an_energy_that_cannot_be_normalized_is_caught() -> None:
    for mutant in (UpsideDown, Gutter):
        assert fails(laws.real_energies_rise_far_out, mutant), mutant


class AllAtOnce(Hopfield):
    """All units are updated at once, so that states may alternate and the energy may rise."""

    @classmethod
    def example(cls) -> Any:
        return cls(features=32, patterns=2), Batch(2.0 * torch.randint(2, (2, 32)) - 1)

    def retrieve(self, x: Tensor, *, update_steps: int = 10, generator: Generator | None = None) -> Tensor:
        for _ in range(update_steps):
            x = torch.where(x @ self.couplings >= 0, 1.0, -1.0)
        return x


class Overshoots(ModernHopfield):
    """Goes three times as far as the attention says."""

    def retrieve(self, x: Tensor, *, update_steps: int = 3) -> Tensor:
        for _ in range(update_steps):
            x = x + 3 * (super().retrieve(x, update_steps=1) - x)
        return x


class OtherTemperature(ModernHopfield):
    """The energy of another inverse temperature than that of the updates."""

    def energy(self, x: Tensor) -> Tensor:
        scores = 0.05 * self.beta * self._standard(x) @ self.memory.T
        return 0.5 * self._standard(x).square().sum(1) - scores.logsumexp(1) / (0.05 * self.beta)


@pytest.mark.parametrize("mutant", [AllAtOnce, Overshoots, OtherTemperature])
def test_updates_that_raise_the_energy_are_caught(mutant: Any) -> None:
    assert fails(laws.retrieval_never_raises_the_energy, mutant)


class BondsTwice(Ising):
    """Each pair of neighbors is counted twice in the energy and once in Z: x'Wx for a sum over the edges."""

    def energy(self, x: Tensor) -> Tensor:
        return super().energy(x) - self.coupling * bonds(self._lattice(x))


class OneColorOnly(Ising):
    """The white sites are never drawn."""

    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        white = torch.tensor([0, 1, 0, 1, 1, 0, 1, 0], dtype=torch.bool)
        return torch.where(white, x, super().transition(x, beta, generator))


@pytest.mark.slow
def test_lattices_that_do_not_follow_their_energies_are_caught() -> None:
    assert fails(laws.the_constant_normalizes, BondsTwice)
    assert fails(laws.samples_follow_the_energies, OneColorOnly)


class SigmoidOfMinus(RBM):
    """p(v = 1 | h) = sigma(-b - Wh)."""

    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        return 1 - super().transition(x, beta, generator)


class BiasesSwapped(RBM):
    """b and c change places."""

    @classmethod
    def example(cls) -> Any:
        _, batch = super().example()
        return cls(features=6, units=6, chains=16), batch

    def _free_energy(self, x: Tensor, up: Tensor) -> Tensor:
        return -(x @ self.hidden_bias) - softplus(up - self.hidden_bias + self.visible_bias).sum(-1)


class WithoutHiddenBias(RBM):
    def _free_energy(self, x: Tensor, up: Tensor) -> Tensor:
        return super()._free_energy(x, up - self.hidden_bias)


class StopsEarly(RBM):
    MCMC_STEPS = 0


@pytest.mark.parametrize("mutant", [SigmoidOfMinus, BiasesSwapped, WithoutHiddenBias, StopsEarly])
def test_samples_that_do_not_follow_the_energies_are_caught(mutant: Any) -> None:
    assert fails(laws.samples_follow_the_energies, mutant)


class OppositeSign(RBM):
    """dE/dW = +h x'."""

    def gradient(self, batch: Batch) -> Callable[[], Terms]:
        terms = super().gradient(batch)
        for parameter in self.parameters():
            assert parameter.grad is not None
            parameter.grad = -parameter.grad
        return terms


class SumOverTheBatch(RBM):
    def gradient(self, batch: Batch) -> Callable[[], Terms]:
        terms = super().gradient(batch)
        assert self.weight.grad is not None
        self.weight.grad = self.weight.grad * len(batch)
        return terms


@pytest.mark.parametrize("mutant", [OppositeSign, SumOverTheBatch])
def test_a_gradient_by_hand_that_is_not_that_of_the_loss_is_caught(mutant: Any) -> None:
    assert fails(laws.gradient_by_hand_is_that_of_the_loss, mutant)


class SumOverTheChains(RBM):
    """The expectation under the model as a sum over M draws, without 1/M."""

    def loss(self, batch: Batch) -> Terms:
        return {"contrastive_divergence": self.energy(batch.x).mean() - self.energy(self.negatives(batch.x)).sum()}


class OnlyTheData(RBM):
    """Z is taken for a constant, so that nothing holds the energies up elsewhere."""

    def loss(self, batch: Batch) -> Terms:
        return {"contrastive_divergence": self.energy(batch.x).mean()}


@pytest.mark.parametrize("mutant", [SumOverTheChains, OnlyTheData])
def test_a_contrastive_divergence_in_which_data_and_chains_do_not_count_alike_is_caught(mutant: Any) -> None:
    assert fails(laws.only_differences_of_energies_count, mutant)


class Unlearns(RBM):
    """F(chain) - F(data)."""

    def loss(self, batch: Batch) -> Terms:
        return {name: -value for name, value in super().loss(batch).items()}


class UnlearnsAlone(Alone):
    """d E / d b = +x."""

    def loss(self, batch: Batch) -> Terms:
        return {name: -value for name, value in super().loss(batch).items()}


class ThroughTheData(RBM):
    """Takes the data for the chain, so that only noise is left."""

    def negatives(self, x: Tensor) -> Tensor:
        return x[torch.randint(len(x), (len(x),))]


@pytest.mark.parametrize("mutant", [Unlearns, UnlearnsAlone, ThroughTheData])
def test_learning_that_does_not_raise_the_likelihood_is_caught(mutant: Any) -> None:
    assert fails(laws.learning_raises_the_likelihood, mutant)


def test_the_kind_needs_its_method() -> None:
    with pytest.raises(UsageError, match="energy, which is missing"):
        laws.check_energy(nn.Linear(1, 1), Batch(torch.zeros(1, 1)))
