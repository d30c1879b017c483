"""Memory lengths are read off the accuracies, and slopes of linear networks are those of theory."""

import math
from typing import Any

import pytest

import deepcanon as dc
from deepcanon.studies.memory_length import LINEAR, _linear, sentences


@pytest.mark.parametrize("radius", LINEAR.values())
def test_the_slope_of_a_linear_network_is_the_log_of_its_spectral_radius(radius: float) -> None:
    found = _linear(dc.find("rnn_predictor"), radius, seed=0)
    assert found["norms"][0] == pytest.approx(1)
    assert found["slope"] == pytest.approx(math.log(radius), abs=0.01)


def test_the_headline_follows_the_numbers() -> None:
    def planted(rnn: list[list[float]]) -> str:
        kinds: dict[str, Any] = {"rnn": {"accuracy": rnn}, "lstm": {"accuracy": [[1.0, 1.0], [0.9, 1.0]]}}
        linear = {"0.9": {"radius": 0.9, "slope": -0.1}}
        return sentences({"delays": [5, 10], "chance": 0.125, "kinds": kinds, "linear": linear})[0]

    assert planted([[0.9, 0.8], [0.1, 0.2]]).endswith("rnn 5, lstm 10 or more.")
    assert planted([[0.9, 0.8], [0.9, 0.3]]).endswith("rnn 10 or more, lstm 10 or more.")
    assert planted([[0.5, 0.5], [0.9, 0.9]]).endswith("rnn below 5, lstm 10 or more.")
