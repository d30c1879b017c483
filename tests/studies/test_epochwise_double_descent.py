"""Double descent by epochs: the exact risk, which falls, rises and falls, and verdicts on planted curves."""

import math

import pytest
import torch

from deepcanon.studies.epochwise_double_descent import expected, measured, spread, turns, verdict


@pytest.mark.slow
def test_the_measured_risk_is_the_exact_one_and_descends_twice() -> None:
    times = spread(4000)
    theory = expected(times, 1.0)
    risks = measured(times, 1.0, 400, torch.Generator().manual_seed(0))
    error = risks.std(0) / math.sqrt(400)
    assert float(((risks.mean(0) - torch.tensor(theory)) / error).abs().max()) < 4
    found = turns([theory])
    low, high = found["low"], found["high"]
    assert theory[0] > theory[low] + 0.05
    assert theory[high] > theory[low] + 0.2
    assert theory[-1] < theory[low]  # lower than where early stopping would end
    assert theory[-1] == pytest.approx(1 + 66 / 100, abs=0.01)  # the noise, and a share of it for each feature


def test_without_noise_there_is_one_descent() -> None:
    theory = expected(spread(4000), 0.0)
    assert theory == sorted(theory, reverse=True)
    assert turns([theory])["rise"] == [0]


def test_verdicts_follow_the_curves() -> None:
    twice = [[3.0, 1.0, 2.0, 0.5, 0.5], [3.1, 1.1, 2.2, 0.6, 0.6], [3.0, 1.1, 2.1, 0.5, 0.5]]
    assert verdict(twice).endswith("double descent")
    once = [[3.0, 1.0, 2.0, 2.0, 2.0], [3.1, 1.1, 2.2, 2.2, 2.2], [3.0, 1.1, 2.1, 2.1, 2.1]]
    assert "a second descent was not seen" in verdict(once)
    falling = [[3.0, 2.0, 1.0, 0.5, 0.5], [3.0, 2.0, 1.0, 0.6, 0.4], [3.0, 2.0, 1.0, 0.4, 0.6]]
    assert "no rise" in verdict(falling)
