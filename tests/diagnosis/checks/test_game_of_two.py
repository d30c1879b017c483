from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Descend
from deepcanon.diagnosis.families.game_state import generator_turn, is_game, variety
from deepcanon.models import GAN, MLP, VAE
from tests.diagnosis.checks.planted import causes, parent, report_of


@pytest.mark.slow
def test_a_healthy_game_is_left_alone() -> None:
    report = report_of("game_of_two", "gan:hidden=32", "moons")
    assert causes(report) == []
    assert report.passed["game_of_two"]["spread"] > 0.3


@pytest.mark.slow
def test_a_generator_without_noise_drops_modes() -> None:
    def _sample(self: Any, n: int, generator: Generator | None = None) -> Tensor:
        drawn: Tensor = self.generator(torch.zeros(n, self.latent))
        return drawn

    assert causes(report_of("game_of_two", "gan:hidden=32", "moons", methods={"_sample": _sample})) == [
        "mode dropping, mode collapse"
    ]


@pytest.mark.slow
def test_a_generator_that_hardly_moves_loses_to_the_discriminator() -> None:
    def turns(self: Any) -> list[Any]:
        discriminator, generator = parent(self).turns(self)
        return [discriminator, Descend(generator.loss, generator.parameters, name="g", lr=1e-9, optimizer="sgd")]

    report = report_of("game_of_two", "gan", "eight-gaussians", methods={"turns": turns})
    assert causes(report) == ["discriminator wins"]


def test_a_game_is_known_by_its_turns() -> None:
    gan = GAN(features=2)
    assert is_game(gan)
    assert generator_turn(gan, Batch(torch.zeros(4, 2))).name == "generator"
    assert not is_game(VAE(features=2))
    assert not is_game(MLP(2, 2))


def test_variety_knows_what_samples_leave_out() -> None:
    x = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))

    class Half:
        """Samples on one side of the plane only."""

        def sample(self, n: int) -> Tensor:
            drawn = torch.randn(n, 2, generator=torch.Generator().manual_seed(1))
            return torch.cat([drawn[:, :1].abs(), drawn[:, 1:]], 1)

    class Whole(Half):
        def sample(self, n: int) -> Tensor:
            return torch.randn(n, 2, generator=torch.Generator().manual_seed(1))

    half, whole = variety(Half(), Batch(x)), variety(Whole(), Batch(x))
    assert half["missed"] > 0.2 > whole["missed"]
    assert whole["spread"] == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_samples_that_are_thrown_away_have_too_high_a_rate() -> None:
    report = report_of("game_of_two", "gan", "moons", steps=300, lr=0.3)
    assert causes(report) == ["learning rate too high"]
    assert next(iter(report)).change["lr"] < 0.3
