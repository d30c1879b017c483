"""Each law of games is shown a game that breaks it; fair games keep them."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

from deepcanon.core import Batch, Descend, Labeled, Terms, Turn, UsageError
from deepcanon.laws import check, kinds_of, report
from deepcanon.laws import game as laws
from deepcanon.laws.outcome import Law, Outcome
from deepcanon.models.adversarial.conditional_gan import ConditionalGAN
from deepcanon.models.adversarial.cyclegan import CycleGAN
from deepcanon.models.adversarial.dcgan import DCGAN
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.adversarial.wgan import WGAN
from deepcanon.nn.rescale import Rescale


def verdict(law: Law, cls: Any) -> Outcome:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return found


@pytest.mark.parametrize(("cls", "count"), [(GAN, 3), (ConditionalGAN, 3), (DCGAN, 3), (WGAN, 2), (CycleGAN, 1)])
def test_fair_games_keep_the_laws(cls: Any, count: int) -> None:
    found = check(cls, "game")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == count


class MovesABuffer(GAN):
    """The discriminator's turn shifts the generator's outputs, though no parameter of it."""

    def discriminator_loss(self, batch: Batch) -> Terms:
        cast(Rescale, self.generator[-1]).shift.add_(0.01)
        return super().discriminator_loss(batch)


class ClipsTheWrongPlayer(WGAN):
    @torch.no_grad()
    def constrain(self) -> None:
        for parameter in self.generator.parameters():
            parameter.clamp_(-0.1, 0.1)


class TrainsBothAtOnce(GAN):
    """A turn of both is nobody's alone, and the law has nothing against it."""

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.parameters(), name="both")]


def test_a_turn_that_moves_the_other_player_is_named() -> None:
    found = verdict(laws.a_turn_changes_only_its_player, MovesABuffer)
    assert not found.holds
    assert "the turn discriminator changes generator.1.shift" in found.detail
    clipped = verdict(laws.a_turn_changes_only_its_player, ClipsTheWrongPlayer)
    assert "the turn discriminator changes generator.0.0.weight" in clipped.detail
    assert verdict(laws.a_turn_changes_only_its_player, TrainsBothAtOnce).holds


class IteratesInEveryPass(DCGAN):
    """Spectral normalization as torch has it: each pass of the discriminator, also in the generator's turn, moves u."""

    def loss(self, batch: Batch) -> Terms:
        self.constrain()
        return super().loss(batch)


def test_spectral_normalization_that_moves_in_the_turn_of_the_generator_is_named() -> None:
    found = verdict(laws.a_turn_changes_only_its_player, IteratesInEveryPass)
    assert not found.holds
    assert "the turn generator changes discriminator.1.0.parametrizations.weight.0.u" in found.detail


class ForgetsTheClass(ConditionalGAN):
    """The best discriminator of data of all classes, each counted as often as that of the class."""

    def discriminator_loss(self, batch: Labeled) -> Terms:
        terms = super().discriminator_loss(batch)
        return {"real": terms["real"] / self.classes, "fake": terms["fake"]}


class NormalizesBatches(GAN):
    """Running statistics of batch normalization move whenever the layer is used."""

    def __init__(self, features: int, latent: int = 2, hidden: tuple[int, ...] = (8,)) -> None:
        super().__init__(features, latent, hidden)
        self.discriminator.insert(1, nn.BatchNorm1d(features))


def test_running_statistics_may_move() -> None:
    assert verdict(laws.a_turn_changes_only_its_player, NormalizesBatches).holds


class CountsDataTwice(GAN):
    def discriminator_loss(self, batch: Batch) -> Terms:
        terms = super().discriminator_loss(batch)
        return terms | {"real": 2 * terms["real"]}


class SwapsTheLabels(GAN):
    def discriminator_loss(self, batch: Batch) -> Terms:
        fake = self.sample(len(batch))
        return {
            "real": softplus(self.discriminate(batch.x)).mean(),
            "fake": softplus(-self.discriminate(fake)).mean(),
        }


class HalvesTheLoss(GAN):
    """The discriminator is still the best one, but the value is not that of the game."""

    def discriminator_loss(self, batch: Batch) -> Terms:
        return {name: term / 2 for name, term in super().discriminator_loss(batch).items()}


@pytest.mark.parametrize("mutant", [CountsDataTwice, SwapsTheLabels, ForgetsTheClass])
def test_a_discriminator_that_learns_something_else_is_caught(mutant: Any) -> None:
    assert not verdict(laws.best_discriminator_is_p_over_p_plus_q, mutant).holds


def test_a_game_of_another_value_is_caught() -> None:
    assert verdict(laws.best_discriminator_is_p_over_p_plus_q, HalvesTheLoss).holds
    found = verdict(laws.best_value_is_two_js_minus_log_4, HalvesTheLoss)
    assert not found.holds
    assert "the game is worth -0.6" in found.detail


class DoesNotDivide(WGAN):
    """The plain difference is K times the distance for a critic of slope K."""

    def wasserstein(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.discriminate(x).mean() - self.discriminate(y).mean()).abs() * 1e3


def test_a_critic_that_claims_too_much_is_caught() -> None:
    assert not verdict(laws.critic_stays_below_the_earth_movers_distance, DoesNotDivide).holds


class Plain(nn.Module):
    """A game that is not a deepcanon model."""

    def __init__(self, real: Callable[[Tensor], Tensor] = lambda logits: softplus(-logits)) -> None:
        super().__init__()
        self.generator = nn.Linear(3, 2)
        self.discriminator = nn.Linear(2, 1)
        self.real = real

    def discriminator_loss(self, batch: Batch) -> Terms:
        fake = self.generator(torch.randn(len(batch), 3, dtype=batch.x.dtype)).detach()
        return {
            "real": self.real(self.discriminator(batch.x)).mean(),
            "fake": softplus(self.discriminator(fake)).mean(),
        }


def test_any_module_with_a_discriminator_loss_is_a_game() -> None:
    batch = Batch(torch.randn(16, 2, generator=Generator().manual_seed(0)))
    assert kinds_of((Plain(), batch)) == ["game"]
    assert all(outcome.holds for outcome in check((Plain(), batch), "game"))
    smooth = check((Plain(lambda logits: 0.9 * softplus(-logits) + 0.1 * softplus(logits)), batch), "game")
    assert [outcome.holds for outcome in smooth] == [False, False]  # label smoothing has another optimum
    with pytest.raises(UsageError, match="a game has discriminator_loss"):
        check((nn.Linear(2, 1), batch), "game")
