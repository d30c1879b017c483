"""The judge of damaged folders: another number is let pass only with the damage named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks._bases import said
from tests.attacks._frame import Ended
from tests.attacks.damaged import silence

FILE = Path("X/run.json")


@pytest.mark.parametrize(
    ("ended", "silent"),
    [
        (Ended(0, '{"nll": 0.5, "seconds": 1}', "", 1.0), False),
        (Ended(0, '{"nll": 0.6, "seconds": 1}', "", 1.0), True),
        (Ended(0, '{"nll": 0.6}', "X/run.json is damaged: it has lost 3 bytes", 1.0), False),
        (Ended(0, '{"nll": 0.6}', "something is damaged", 1.0), True),
        (Ended(1, "", "deepcanon: X/run.json is damaged", 1.0), False),
    ],
)
def test_another_number_must_come_with_the_damage(ended: Ended, silent: bool) -> None:
    assert bool(silence(ended, {"nll": 0.5}, FILE)) == silent


def test_times_are_no_numbers_to_compare() -> None:
    assert said(Ended(0, '{"a": [{"seconds": 3, "b": 1}]}', "", 1.0)) == {"a": [{"b": 1}]}
