"""Observers of users: called as their page says, and after a resume as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import Terms
from deepcanon.core.toy import Toy
from deepcanon.train import Trainer


class Diary(dc.Observer):
    """Writes down what it is told; it may break the training off."""

    def __init__(self, break_at: int | None = None) -> None:
        self.break_at = break_at
        self.calls: list[str] = []
        self.steps: list[int] = []
        self.losses: list[float] = []

    def begin(self, trainer: Trainer) -> None:
        self.calls.append("begin")

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if trainer.step == self.break_at:
            raise KeyError("broken off")
        self.steps.append(trainer.step)
        self.losses.append(sum(term.item() for term in terms.values()))

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        self.calls.append(f"epoch {trainer.epoch} of {trainer.epochs}: {', '.join(valid)}")

    def end(self, trainer: Trainer) -> None:
        self.calls.append("end")

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps, "losses": self.losses}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps, self.losses = state["steps"], state["losses"]


def trained(diary: dc.Observer | None, out: Path | None = None) -> dc.Result:
    torch.manual_seed(0)
    data = dc.from_tensors(torch.randn(48, 2), name="made")
    seen = [] if diary is None else [diary]
    return dc.fit(
        Toy(2), data, epochs=3, batch_size=16, checkpoint_every=1, quiet=True, observers=seen, out=out, seed=1
    )


def test_an_observer_is_called_as_its_page_says_and_changes_nothing() -> None:
    diary = Diary()
    watched, alone = trained(diary), trained(None)
    assert diary.calls[0] == "begin"
    assert diary.calls[-1] == "end"
    assert [call.partition(":")[0] for call in diary.calls[1:-1]] == [f"epoch {i} of 3" for i in (1, 2, 3)]
    assert diary.steps == list(range(1, watched.steps + 1))
    for name, weight in watched.model.state_dict().items():
        assert torch.equal(weight, alone.model.state_dict()[name])


def test_an_observer_of_a_run_that_was_broken_off_ends_as_that_of_an_unbroken_one(tmp_path: Path) -> None:
    whole, broken, resumed = Diary(), Diary(break_at=5), Diary()
    result = trained(whole)
    with pytest.raises(KeyError, match="broken off"):
        trained(broken, tmp_path / "run")
    assert broken.steps == [1, 2, 3, 4]
    assert broken.calls[-1] == "end", "it is told of the end of a training that fails, too"
    torch.manual_seed(0)
    data = dc.from_tensors(torch.randn(48, 2), name="made")
    dc.resume(tmp_path / "run", data, model=Toy, quiet=True, observers=[resumed])
    assert resumed.calls[0] == "begin"
    assert resumed.steps == whole.steps == list(range(1, result.steps + 1))
    assert resumed.losses == whole.losses
