"""Without a terminal, a training says how far it is at least every ten seconds, however long its epochs are."""

from __future__ import annotations

import re

import pytest
import torch

import deepcanon as dc
from deepcanon.core import Terms
from deepcanon.core.toy import Toy
from deepcanon.train import Observer, Trainer


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
        assert re.fullmatch(rf"epoch \d/{epochs}  step \d+/{steps * epochs}  nll [\d.]+  .* steps/s  .* left", line)
    return [int(re.findall(r"step (\d+)", line)[0]) for line in said]


def test_a_long_epoch_has_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(1.0, 35, 1, monkeypatch, capsys) == [11, 21, 31, 35]
    assert lines(60.0, 3, 2, monkeypatch, capsys) == [2, 3, 5, 6]


def test_a_short_epoch_has_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(0.1, 35, 2, monkeypatch, capsys) == [35, 70]
