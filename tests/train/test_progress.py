"""Progress in words: a line at least every ten seconds where there is no terminal, and a speed that is never nought."""

from __future__ import annotations

import re

import pytest
import torch

import deepcanon as dc
from deepcanon.core import Terms
from deepcanon.core.toy import Toy
from deepcanon.train import Observer, Trainer
from deepcanon.train.progress import speed_in_words


class Clock(Observer):
    """A clock that goes on by so many seconds with every step."""

    def __init__(self, seconds: float) -> None:
        self.now = 1000.0
        self.seconds = seconds

    def monotonic(self) -> float:
        return self.now

    def step(self, trainer: Trainer, terms: Terms) -> None:
        self.now += self.seconds


def lines(
    seconds: float, steps: int, epochs: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[int]:
    """The steps at which a line is printed."""
    clock = Clock(seconds)
    monkeypatch.setattr("deepcanon.train.progress.time.monotonic", clock.monotonic)
    data = dc.from_tensors(torch.randn(4 * steps, 2))
    dc.fit(Toy(2), data, epochs=epochs, batch_size=4, observers=[clock])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    for line in said:
        assert re.fullmatch(rf"epoch \d/{epochs}  step \d+/{steps * epochs}  nll [\d.]+  .*/s.*  .* left", line)
    return [int(re.findall(r"step (\d+)", line)[0]) for line in said]


def test_a_long_epoch_has_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(1.0, 35, 1, monkeypatch, capsys) == [11, 21, 31, 35]
    assert lines(60.0, 3, 2, monkeypatch, capsys) == [2, 3, 5, 6]


def test_a_short_epoch_has_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(0.1, 35, 2, monkeypatch, capsys) == [35, 70]


@pytest.mark.parametrize("speed", [1e-4, 0.03, 0.4, 0.49, 0.51, 0.96, 1.0, 9.99, 30.0, 12345.6])
def test_the_speed_reads_back_to_a_tenth(speed: float) -> None:
    number, unit = speed_in_words(speed).split()
    assert not re.match(r"0+(\.0+)?$", number)
    shown = float(number) if unit == "steps/s" else 1 / float(number)
    assert shown == pytest.approx(speed, rel=0.1)


def test_before_the_first_step_nothing_is_said() -> None:
    assert speed_in_words(0.0) == ""
