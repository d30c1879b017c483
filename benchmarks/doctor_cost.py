"""The share of the time of a training that the doctor takes as an observer, for ``benchmarks/doctor.py --part cost``.

Whole trainings with and without it take turns in one process, in processor time; the ratio is the median over pairs of
neighbors, with the lowest and the highest, next to a control of trainings without it against each other. Means would be
moved by whatever else runs. On a machine that is not quiet such ratios vary by more than what is asked for, so that
the share is counted as well: the processor time within the doctor, and what the steps in which it watches activations
take beyond the median of the others, by that of the whole training; the median and the highest over the trainings.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

import deepcanon as dc
from deepcanon.blueprints import blueprint
from deepcanon.core import Terms
from deepcanon.data import Dataset
from deepcanon.diagnosis.during_training import Doctor
from deepcanon.train.trainer import Trainer

TRAININGS = {
    "mlp:hidden=512/512": ("mnist-sized noise", 150),
    "mlp": ("digits", 2000),
    "cnn": ("digits", 250),
    "vae": ("digits:dequantized", 1200),
    "gpt:layers=2,embedding=64": ("text:length=64", 80),
    "gcn": ("block-model", 1000),
}
"""The models, each with its data and the steps of one training, some seconds long."""


def main(pairs: int) -> None:
    print("| model | data | steps | counted | with the doctor | control | looks |\n|---|---|---|---|---|---|---|")
    for words, (name, steps) in TRAININGS.items():
        data = noise() if name == "mnist-sized noise" else dc.load_data(name)
        one(words, data, steps, watched=True)  # which sets everything up
        kinds = {"without": False, "with": True, "again": False}
        taken: dict[str, list[float]] = {kind: [] for kind in kinds}
        looks, counted = 0, []
        for number in range(pairs):
            for kind in kinds if number % 2 == 0 else reversed(kinds):
                seconds, doctor = one(words, data, steps, watched=kinds[kind])
                taken[kind].append(seconds)
                looks = max(looks, doctor.looks)
                if kinds[kind]:
                    counted.append(100 * doctor.taken() / seconds)
        cost, control = (percent(taken[kind], taken["without"]) for kind in ("with", "again"))
        share = f"{statistics.median(counted):.2f} % (to {max(counted):.2f})"
        print(f"| {words} | {name} | {steps} | {share} | {cost} | {control} | {looks} |", flush=True)


class Timed(Doctor):
    """The doctor with a count of its own processor time."""

    def __init__(self) -> None:
        super().__init__(notify=lambda _: None)
        self.own = 0.0
        self.watched: list[float] = []
        self.others: list[float] = []
        self._last = time.process_time()

    def begin(self, trainer: Trainer) -> None:
        super().begin(trainer)
        self._last = time.process_time()

    def step(self, trainer: Trainer, terms: Terms) -> None:
        now = time.process_time()
        (self.watched if self._before else self.others).append(now - self._last)
        super().step(trainer, terms)
        self._last = time.process_time()
        self.own += self._last - now

    def end(self, trainer: Trainer) -> None:
        now = time.process_time()
        super().end(trainer)
        self.own += time.process_time() - now

    def taken(self) -> float:
        """Its own time, and what watched steps take beyond the usual one."""
        usual = statistics.median(self.others) if self.others else 0.0
        return self.own + sum(self.watched) - usual * len(self.watched)


def percent(some: list[float], others: list[float]) -> str:
    """By how much some times exceed others, pair by pair: the median, the lowest and the highest."""
    ratios = sorted(100 * (a / b - 1) for a, b in zip(some, others, strict=True))
    return f"{statistics.median(ratios):+.1f} % ({ratios[0]:+.1f} to {ratios[-1]:+.1f})"


def one(words: str, data: Dataset[Any], steps: int, watched: bool) -> tuple[float, Timed]:
    """The processor time of one training, and the doctor that has watched it, if it has."""
    model = blueprint(words).build(data.model_sizes, data.name)
    doctor = Timed()
    begun = time.process_time()
    dc.fit(model, data, steps=steps, quiet=True, evaluate=False, observers=[doctor] if watched else [])
    return time.process_time() - begun, doctor


def noise() -> Dataset[Any]:
    """Noise of the size of MNIST."""
    random = torch.Generator().manual_seed(0)
    return dc.from_tensors(torch.rand(20_000, 784, generator=random), torch.randint(10, (20_000,), generator=random))
