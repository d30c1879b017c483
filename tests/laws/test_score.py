"""Each law of learned scores is shown an objective that breaks it; the three of score matching keep them."""

from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Terms, UsageError
from deepcanon.laws import report
from deepcanon.laws import score as laws
from deepcanon.models.scores.score_matching import Objective, ScoreMatching


def example(cls: type[ScoreMatching], objective: Objective) -> tuple[ScoreMatching, Batch]:
    torch.manual_seed(0)
    return cls(features=2, hidden=(16,), objective=objective, noise=0.3), ScoreMatching.example()[1]


@pytest.mark.slow
@pytest.mark.parametrize("objective", get_args(Objective))
def test_score_matching_keeps_the_laws(objective: Objective) -> None:
    found = laws.check_score(*example(ScoreMatching, objective))
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == 2


class WithoutTheHalf(ScoreMatching):
    """tr dψ + |ψ|², whose minimum is half of the score."""

    def loss(self, batch: Batch) -> Terms:
        terms = super().loss(batch)
        return {**terms, "square": 2 * terms["square"]}


class SlopeUpsideDown(ScoreMatching):
    def loss(self, batch: Batch) -> Terms:
        terms = super().loss(batch)
        return {**terms, "slope": -terms["slope"]}


class LearnsTheNoise(ScoreMatching):
    """The target is the noise itself, and not minus the noise divided by its standard deviation."""

    def loss(self, batch: Batch) -> Terms:
        noise = torch.randn_like(batch.x)
        return {"denoising": (self(batch.x + self.sigma * noise) - noise).square().sum(-1).mean()}


class GradientOfTheDensity(ScoreMatching):
    def score(self, x: Tensor) -> Tensor:
        return super().score(x) * torch.exp(-0.5 * x.square().sum(-1, keepdim=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "objective"),
    [
        (WithoutTheHalf, "implicit"),
        (SlopeUpsideDown, "implicit"),
        (LearnsTheNoise, "denoising"),
        (GradientOfTheDensity, "denoising"),
    ],
)
def test_an_objective_that_teaches_something_else_is_caught(mutant: Any, objective: Objective) -> None:
    found = laws.learns_the_score_of_a_gaussian(*example(mutant, objective))
    assert found is not None
    assert not found.holds


class OneNumber(ScoreMatching):
    def score(self, x: Tensor) -> Tensor:
        return super().score(x).sum(-1)


def test_a_wrong_shape_is_caught() -> None:
    found = laws.scores_have_the_shape_of_the_data(*example(OneNumber, "denoising"))
    assert found is not None
    assert not found.holds


def test_the_kind_needs_its_methods() -> None:
    with pytest.raises(UsageError, match="score, loss is missing"):
        laws.check_score(nn.Linear(1, 1), Batch(torch.zeros(1, 1)))
