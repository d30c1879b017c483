"""What turns, preparations and data sets ask of the trainer: hooks, several passes, fresh forms, terms on demand."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator

import deepcanon as dc
from deepcanon.core import Batch, Descend, Evaluated, Terms, Turn
from deepcanon.core.toy import Toy
from deepcanon.data import Dataset
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.resume import resume
from deepcanon.train.evaluation import MOST_EVALUATED
from deepcanon.train.settings import settings_of


def take_back(folder: Path, step: int) -> None:
    """Make a finished run one that was broken off after this step."""
    run = RunFolder.open(folder)
    for path in checkpoint.saved(run.checkpoints):
        if int(path.name.partition("-")[2]) > step:
            shutil.rmtree(path)
    (folder / "model.safetensors").unlink()
    run.info.pop("sha256")
    run.update(status="running")


class Greedy(Toy):
    """Two layers in turn: when the second half of training begins, its mean starts anew."""

    def turns(self) -> Sequence[Turn[Batch]]:
        self.began: list[float] = []
        first = Descend(self.loss, [self.mean], share=(0.0, 0.5), start=lambda: self.began.append(self.progress))
        return [first, Descend(self.loss, [self.mean], name="second", share=(0.5, 1.0), start=self.restart)]

    @torch.no_grad()
    def restart(self) -> None:
        self.began.append(self.progress)
        self.mean.fill_(100.0)


def test_a_hook_runs_once_when_the_share_of_its_turn_begins() -> None:
    model, batch = Greedy.example()
    dc.fit(model, dc.from_tensors(batch.x), steps=10, batch_size=32, lr=1e-3, quiet=True)
    assert model.began == [0.1, 0.6]
    assert bool((model.mean > 99).all())


@pytest.mark.parametrize("step", [3, 5, 6, 9])
def test_a_run_that_is_resumed_around_the_hook_ends_with_the_same_bits(tmp_path: Path, step: int) -> None:
    model, batch = Greedy.example()
    data = dc.from_tensors(batch.x)
    dc.fit(model, data, out=tmp_path, steps=10, batch_size=32, checkpoint_every=1, keep=99, quiet=True)
    take_back(tmp_path, step)
    again: Any = resume(tmp_path, data, find=lambda name: Greedy, quiet=True).model
    assert torch.equal(again.mean, model.mean)


class LooksTwice(Toy):
    def prepare(self, data: Iterable[Batch]) -> None:
        mean = torch.cat([batch.x for batch in data]).mean(0)
        spread = torch.cat([(batch.x - mean).square() for batch in data]).mean()
        self.seen = float(spread)


def test_a_preparation_may_go_through_the_data_several_times() -> None:
    model, batch = LooksTwice.example()
    dc.fit(model, dc.from_tensors(batch.x), steps=1, batch_size=5, quiet=True)
    assert model.seen == pytest.approx(float((batch.x - batch.x.mean(0)).square().mean()))


class ByHand(Toy):
    """Counts how often its terms are computed."""

    computed = 0

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.parameters(), gradient=self.gradient)]

    @torch.no_grad()
    def gradient(self, batch: Batch) -> Callable[[], Terms]:
        self.mean.grad = self.mean - batch.x.mean(0)

        def terms() -> Terms:
            self.computed += 1
            return self.loss(batch)

        return terms


def test_the_terms_of_a_gradient_by_hand_are_computed_only_where_they_are_logged(tmp_path: Path) -> None:
    model, batch = ByHand.example()
    dc.fit(model, dc.from_tensors(batch.x), out=tmp_path, steps=1000, batch_size=32, quiet=True)
    logged = [record for record in RunFolder.open(tmp_path).log() if record["kind"] == "step"]
    assert model.computed == len(logged) == 200
    assert all("nll" in record["terms"] for record in logged)


def test_dequantization_noise_is_new_at_every_step_and_the_gray_levels_stay() -> None:
    data = dc.load_data("digits:dequantized")
    seen: list[Batch] = []

    class Records(Toy):
        def loss(self, batch: Batch) -> Terms:
            seen.append(batch)
            return super().loss(batch)

    few: Dataset[Any] = replace(data, train=data.train.select(torch.arange(16)), valid=None, test=None)
    dc.fit(Records(64), few, steps=3, batch_size=16, quiet=True)
    trained = seen[:3]
    for one, other in itertools.combinations(trained, 2):
        assert not bool((one.x.sort(0).values == other.x.sort(0).values).all())
    levels = [(batch.x * 17).floor().flatten(1).sum(1).sort().values for batch in trained]
    assert all(torch.equal(levels[0], other) for other in levels[1:])


def test_fresh_forms_follow_the_seed_and_resume_bit_for_bit(tmp_path: Path) -> None:
    def fresh(batch: Batch, generator: Generator) -> Batch:
        return Batch(batch.x + torch.randn(batch.x.shape, generator=generator))

    _, batch = Toy.example()
    data = replace(dc.from_tensors(batch.x), fresh=fresh)
    plain, once, again, other = (Toy(2) for _ in range(4))
    dc.fit(plain, dc.from_tensors(batch.x), steps=6, batch_size=8, quiet=True)
    dc.fit(once, data, out=tmp_path, steps=6, batch_size=8, checkpoint_every=1, keep=99, quiet=True)
    dc.fit(again, data, steps=6, batch_size=8, quiet=True)
    dc.fit(other, data, steps=6, batch_size=8, quiet=True, seed=1)
    assert torch.equal(once.mean, again.mean)
    assert not torch.equal(once.mean, plain.mean)
    assert not torch.equal(once.mean, other.mean)
    take_back(tmp_path, 2)
    resumed: Any = resume(tmp_path, data, find=lambda name: Toy, quiet=True).model
    assert torch.equal(resumed.mean, once.mean)


def test_of_a_large_training_split_a_sample_is_evaluated_unless_all_is_asked_for(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(3 * MOST_EVALUATED, 2)
    counted: list[int] = []

    class Counts(Toy):
        def evaluated(self, batch: Batch) -> Evaluated:
            counted.append(len(batch))
            return super().evaluated(batch)

    model = Counts(2)
    some = dc.fit(model, dc.from_tensors(x), out=tmp_path, steps=1, quiet=True).train["nll"]
    assert sum(counted) == MOST_EVALUATED
    counted.clear()
    every = dc.fit(Counts(2), dc.from_tensors(x), steps=1, quiet=True, evaluate_all=True).train["nll"]
    assert sum(counted) == len(x)
    assert some == pytest.approx(every, abs=0.1)
    assert some != every
    assert settings_of(RunFolder.open(tmp_path).info)["evaluate_all"] is False
