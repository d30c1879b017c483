"""Guidance makes a classifier surer of samples, with the measures checked on real examples."""

import pytest
import torch

from deepcanon.comparison.quality import Yardstick
from deepcanon.core import Recipe, UsageError
from deepcanon.data import load_data
from deepcanon.models.diffusion._diffusion import ScheduleName
from deepcanon.models.diffusion.guided_ddpm import GuidedDDPM
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.studies import guidance as study
from deepcanon.studies._helpers.trained import trained
from deepcanon.studies.guidance import guidance


class Quick(MLP):
    """A classifier that learns for a few epochs only."""

    recipe = Recipe(lr=0.01, batch_size=64, epochs=4)


class Small(GuidedDDPM):
    """A diffusion model with a small network and few timesteps."""

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: tuple[int, ...] = (64, 64),
        timesteps: int = 40,
        noise: ScheduleName = "cosine",
        average: float = 0.95,
    ) -> None:
        super().__init__(features, classes, hidden=hidden, timesteps=timesteps, noise=noise, average=average)


@pytest.mark.slow
def test_a_classifier_is_surer_of_samples_with_guidance() -> None:
    before = torch.get_rng_state()
    finding = guidance(Small, Quick, weights=(0.0, 2.0), steps=120)
    assert torch.equal(torch.get_rng_state(), before)
    plain, guided = finding.numbers["rows"]
    assert finding.numbers["weights"] == [0.0, 2.0]
    assert finding.numbers["samples"] == 360
    assert guided["probability"] > plain["probability"] + 0.02
    assert guided["right"] > plain["right"] > 0.3, "at random it would be a tenth"
    assert finding.numbers["real"]["right"] > 0.9
    assert f"as the given class, with w = 2 {guided['right']:.1%}" in finding.says[1]
    assert f"from {plain['coverage']:.1%} of the test examples to {guided['coverage']:.1%}" in finding.says[3]


def test_the_measures_of_real_examples_are_known() -> None:
    """Test examples cover themselves, other examples of one class alone do not; what is right is the accuracy."""
    data = load_data("digits")
    test = data.split("test")
    classifier = trained(Quick, data, 0)
    yardstick = Yardstick.of(data.train.x, test.x)
    assert yardstick is not None
    real = study._measured(classifier, yardstick, test.x, test.y)
    assert real["coverage"] == 1
    assert real["right"] == pytest.approx(float((classifier.predict(test.x) == test.y).double().mean()))
    ones = study._measured(classifier, yardstick, test.x[test.y == 1], test.y[test.y == 1])
    assert ones["coverage"] < 0.3
    wrong = study._measured(classifier, yardstick, test.x, (test.y + 1) % 10)
    assert wrong["probability"] < 0.05


def test_data_and_weights_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="images with classes; moons gives labeled examples"):
        guidance(Small, Quick, data="moons")
    with pytest.raises(UsageError, match="one guidance weight or more"):
        guidance(Small, Quick, weights=())
