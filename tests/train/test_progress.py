"""The speed of a training in words is never nought, however slow it is."""

from __future__ import annotations

import re

import pytest

from deepcanon.train.progress import speed_in_words


@pytest.mark.parametrize("speed", [1e-4, 0.03, 0.4, 0.49, 0.51, 0.96, 1.0, 9.99, 30.0, 12345.6])
def test_the_speed_reads_back_to_a_tenth(speed: float) -> None:
    number, unit = speed_in_words(speed).split()
    assert not re.match(r"0+(\.0+)?$", number)
    shown = float(number) if unit == "steps/s" else 1 / float(number)
    assert shown == pytest.approx(speed, rel=0.1)


def test_before_the_first_step_nothing_is_said() -> None:
    assert speed_in_words(0.0) == ""
