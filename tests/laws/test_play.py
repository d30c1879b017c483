from collections.abc import Callable, Sequence

import pytest
import torch

from deepcanon.core import Absorb, Batch, Descend, Terms, Turn, UsageError
from deepcanon.core.toy import Toy
from deepcanon.laws.play import RATE, play, schedule


def test_a_descend_is_one_step_of_gradient_descent() -> None:
    model, batch = Toy.example()
    (turn,) = model.turns()
    play(model, turn, batch)
    assert torch.allclose(model.mean.detach(), RATE * batch.x.mean(0))  # the gradient at 0 is minus the mean


def test_a_gradient_written_by_hand_and_an_absorb_are_played() -> None:
    model, batch = Toy.example()

    def by_hand(batch: Batch) -> Callable[[], Terms]:
        model.mean.grad = torch.ones(2)
        return lambda: {"loss": torch.zeros(())}

    def rule(batch: Batch) -> None:
        model.mean.add_(5.0)

    play(model, Descend(model.loss, [model.mean], gradient=by_hand), batch)
    assert torch.allclose(model.mean.detach(), torch.full((2,), -RATE))
    play(model, Absorb(rule), batch)
    assert torch.allclose(model.mean.detach(), torch.full((2,), 5.0 - RATE))


def test_a_bare_turn_cannot_be_played() -> None:
    model, batch = Toy.example()
    with pytest.raises(UsageError, match="neither a Descend nor an Absorb"):
        play(model, Turn(name="odd"), batch)


class Alternating(Toy):
    """A toy with a slow turn and one for the first half only."""

    def turns(self) -> Sequence[Turn[Batch]]:
        slow = Descend(self.loss, self.parameters(), name="slow", every=3)
        early = Descend(self.loss, self.parameters(), name="early", share=(0.0, 0.5))
        return [slow, early]


def test_the_schedule_plays_each_turn_when_it_is_due() -> None:
    model, batch = Alternating.example()
    names = [turn.name for turn in schedule(model, batch)]
    assert names.count("slow") == 4
    assert names.count("early") == 6


class OneByOne(Toy):
    """A toy with many turns that follow upon each other."""

    def turns(self) -> Sequence[Turn[Batch]]:
        return [
            Descend(self.loss, self.parameters(), name=str(i), every=2, share=(0.6 * i / 7, 0.6 * (i + 1) / 7))
            for i in range(7)
        ]


def test_the_schedule_is_long_enough_for_turns_of_a_short_share() -> None:
    model, batch = OneByOne.example()
    names = [turn.name for turn in schedule(model, batch)]
    assert list(dict.fromkeys(names)) == [str(i) for i in range(7)]
