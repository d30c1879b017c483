"""Each law of learning is shown a model that breaks it and names the fault."""

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Absorb, Batch, Context, Descend, Labeled, LabeledSequences, Model, Terms, Turn
from deepcanon.core.toy import Toy
from deepcanon.laws.learning import (
    duplicated_batch_keeps_the_loss,
    every_parameter_is_trained,
    parts_add_up_to_the_whole,
    state_round_trip,
    terms_are_finite_scalars,
    training_changes_the_state,
    turns_change_only_their_own,
)
from deepcanon.laws.outcome import Law, Outcome
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.recurrent.lstm_predictor import LSTMPredictor
from deepcanon.models.variational.vae import VAE


def verdict(law: Law, cls: type[Model[Any]]) -> Outcome:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return found


class SumsOverExamples(MLP):
    def loss(self, batch: Labeled) -> Terms:
        return {name: value * len(batch) for name, value in super().loss(batch).items()}


class SumsItsNoisyTerm(VAE):
    def loss(self, batch: Batch) -> Terms:
        terms = super().loss(batch)
        return terms | {"kl": terms["kl"] * len(batch)}


def test_a_loss_that_sums_over_examples_is_caught() -> None:
    for mutant in (SumsOverExamples, SumsItsNoisyTerm):
        assert not verdict(duplicated_batch_keeps_the_loss, mutant).holds
    for healthy in (MLP, VAE, GAN, Toy):
        assert verdict(duplicated_batch_keeps_the_loss, healthy).holds


class CountsRowsForPositions(LSTMPredictor):
    """A mean over positions that says it is one over sequences."""

    def weight_of(self, batch: Labeled) -> float:
        return len(batch)


class DividesByTheLargest(Toy):
    """A loss that depends on which examples share a batch."""

    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x).mean() / batch.x.abs().max()}


def test_a_loss_that_is_not_the_mean_of_its_parts_is_caught() -> None:
    ragged = LabeledSequences(torch.randn(9, 5, 2), torch.randn(9, 5, 1), torch.full((9,), 5))
    for cls, holds in ((CountsRowsForPositions, False), (LSTMPredictor, True)):
        torch.manual_seed(0)
        found = parts_add_up_to_the_whole(cls(features=2, targets=1, units=4, every_position=True), ragged)
        assert found is not None
        assert found.holds == holds
    assert not verdict(parts_add_up_to_the_whole, DividesByTheLargest).holds
    assert verdict(parts_add_up_to_the_whole, Toy).holds


class OneTermPerExample(Toy):
    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x)}


class DividesByZero(Toy):
    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x).mean(), "penalty": self.mean.sum() * math.nan}


class BrokenMetric(Toy):
    def metrics(self, batch: Batch) -> Terms:
        return {"odd": torch.tensor(math.inf)}


def test_terms_that_are_not_finite_scalars_are_named() -> None:
    assert "nll of loss is not a 0-d tensor" in verdict(terms_are_finite_scalars, OneTermPerExample).detail
    assert "penalty of loss is nan" in verdict(terms_are_finite_scalars, DividesByZero).detail
    assert "odd of metrics is inf" in verdict(terms_are_finite_scalars, BrokenMetric).detail
    for mutant in (OneTermPerExample, DividesByZero, BrokenMetric):
        assert not verdict(terms_are_finite_scalars, mutant).holds


class Idle(MLP):
    """A layer that nothing uses."""

    def __init__(
        self, features: int, classes: int | None = None, targets: int | None = None, hidden: tuple[int, ...] = (8,)
    ) -> None:
        super().__init__(features, classes, targets, hidden)
        self.spare = nn.Linear(2, 2)


class ForgetsAPlayer(GAN):
    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.generator.parameters(), name="generator")]


class DetachesItsCode(VAE):
    def decode(self, z: Tensor) -> Any:
        return super().decode(z.detach() * 0)


def test_a_parameter_that_is_never_trained_is_named() -> None:
    assert "spare.weight never gets a gradient" in verdict(every_parameter_is_trained, Idle).detail
    forgotten = verdict(every_parameter_is_trained, ForgetsAPlayer).detail
    assert re.search(r"discriminator\.[\d.]*weight never gets a gradient", forgotten)
    assert "decoder.net.0.weight never gets a gradient" in verdict(every_parameter_is_trained, DetachesItsCode).detail
    for healthy in (MLP, GAN, VAE):
        assert verdict(every_parameter_is_trained, healthy).holds


class ReachesOver(GAN):
    """The discriminator's turn also pushes the generator."""

    def discriminator_loss(self, batch: Batch) -> Terms:
        with torch.no_grad():
            for parameter in self.generator.parameters():
                parameter.mul_(0.99)
        return super().discriminator_loss(batch)


class ClipsTheWrongPlayer(GAN):
    def turns(self) -> Sequence[Turn[Batch]]:
        def clip() -> None:
            for parameter in self.generator.parameters():
                parameter.clamp_(-0.01, 0.01)

        first, second = super().turns()
        assert isinstance(first, Descend)
        first.after = clip
        return [first, second]


class TrainsAStranger(Toy):
    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, [*self.parameters(), nn.Parameter(torch.zeros(1))])]


def test_a_turn_that_changes_what_it_did_not_declare_is_named() -> None:
    for mutant in (ReachesOver, ClipsTheWrongPlayer):
        found = verdict(turns_change_only_their_own, mutant)
        assert re.search(r"the turn discriminator changes generator\.[\d.]*weight", found.detail)
        assert not found.holds
    assert "not the model's" in verdict(turns_change_only_their_own, TrainsAStranger).detail
    assert verdict(turns_change_only_their_own, GAN).holds


class Averages(Toy):
    """A moving average that no turn trains may follow in ``after``."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.slow = nn.Parameter(torch.zeros(features), requires_grad=False)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, [self.mean], after=self.follow)]

    def follow(self) -> None:
        self.slow.lerp_(self.mean, 0.1)


def test_an_average_of_weights_is_allowed() -> None:
    assert verdict(turns_change_only_their_own, Averages).holds
    assert verdict(every_parameter_is_trained, Averages).holds


class LearnsNothing(Toy):
    def turns(self) -> Sequence[Turn[Batch]]:
        return [*super().turns(), Absorb(lambda batch: None, name="absent")]


def test_a_turn_without_effect_is_named() -> None:
    found = verdict(training_changes_the_state, LearnsNothing)
    assert not found.holds
    assert found.detail == "the turn absent changes nothing"


class Absorbs(Model[Batch]):
    """No gradient at all."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    @classmethod
    def example(cls) -> Any:
        return cls(), Batch(torch.ones(4, 2))

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Absorb(self.store)]

    def store(self, batch: Batch) -> Terms:
        self.total += batch.x.sum(0)
        return {}

    def loss(self, batch: Batch) -> Terms:
        return {"distance": (batch.x.mean(0) - self.total).square().sum()}


def test_laws_of_gradients_do_not_apply_where_there_are_none() -> None:
    assert every_parameter_is_trained(*Absorbs.example()) is None
    assert turns_change_only_their_own(*Absorbs.example()) is None
    assert verdict(training_changes_the_state, Absorbs).holds


class RemembersOutsideItsState(Absorbs):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def store(self, batch: Batch) -> Terms:
        self.seen += len(batch)
        return super().store(batch)

    def loss(self, batch: Batch) -> Terms:
        return {"seen": torch.tensor(float(self.seen))}


class StateNeedsPickle(Toy):
    def get_extra_state(self) -> dict[str, Any]:
        return {"anything": object()}

    def set_extra_state(self, state: Any) -> None:
        return


class DrawsFromAPlainAttribute(Toy):
    """Its samples depend on a tensor that no state holds."""

    def turns(self) -> Sequence[Turn[Batch]]:
        self.shift = torch.zeros(())
        return [*super().turns(), Absorb(self.move)]

    def move(self, batch: Batch) -> None:
        self.shift = self.shift + 1

    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return super().sample(n, generator=generator) + getattr(self, "shift", 0)


def test_state_that_a_file_of_tensors_does_not_keep_is_caught() -> None:
    assert "loss is not the same again" in verdict(state_round_trip, RemembersOutsideItsState).detail
    assert "_extra_state is a dict" in verdict(state_round_trip, StateNeedsPickle).detail
    assert "sample is not the same again" in verdict(state_round_trip, DrawsFromAPlainAttribute).detail
    for mutant in (RemembersOutsideItsState, StateNeedsPickle, DrawsFromAPlainAttribute):
        assert not verdict(state_round_trip, mutant).holds
    for healthy in (Toy, MLP, VAE, GAN, Absorbs):
        assert verdict(state_round_trip, healthy).holds
