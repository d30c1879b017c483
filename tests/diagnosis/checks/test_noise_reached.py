from __future__ import annotations

import pytest
import torch

from deepcanon.data import load_data
from deepcanon.models import DDPM, NoiseConditionalScore
from tests.diagnosis.checks.planted import causes, report_of


@pytest.mark.parametrize("model", ["ddpm:hidden=16,timesteps=50,noise=linear", "noise_conditional_score", "score_sde"])
def test_schedules_of_the_catalogue_reach_noise(model: str) -> None:
    assert causes(report_of("noise_reached", model, "moons")) == []


def test_a_schedule_that_ends_too_soon_is_named() -> None:
    torch.manual_seed(0)
    model = DDPM(features=2, hidden=(16,), timesteps=50)
    model.betas.mul_(0.02)
    report = report_of("noise_reached", model, load_data("moons"))
    assert causes(report) == ["schedule does not reach noise"]


def test_the_largest_noise_must_hide_the_data() -> None:
    model = NoiseConditionalScore(features=2, hidden=(16,), most_noise=0.05, least_noise=0.01)
    assert causes(report_of("noise_reached", model, load_data("moons"))) == ["schedule does not reach noise"]
