"""The film of a training: frames by one noise, and a training that ends with the same bits, also if it is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import Terms
from deepcanon.pictures.run_pictures import film_figures
from deepcanon.pictures.style import save
from deepcanon.train import Trainer
from deepcanon.train.film import frame_steps, frames_in


class Killer(dc.Observer):
    """Breaks a training off."""

    def __init__(self, at: int) -> None:
        self.at = at

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if trainer.step == self.at:
            raise KeyError("killed")


def trained(out: Path, *observers: dc.Observer) -> dc.Run:
    return dc.Run.train(
        "realnvp:couplings=2,hidden=4", "moons", out=out, steps=40, batch_size=16, checkpoint_every=5, quiet=True,
        evaluate=False, pictures=False, observers=observers,
    )  # fmt: skip


def pictures_in_log(run: Path) -> list[tuple[int, str]]:
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [(record["step"], record["name"]) for record in records if record["kind"] == "picture"]


def without_times(run: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in each.items() if key not in ("seconds", "check")} for each in records]


def test_the_steps_of_the_frames_grow_by_a_factor_and_end_with_the_last() -> None:
    assert frame_steps(10_000, 6) == [0, 1, 10, 100, 1000, 10_000]
    assert frame_steps(3) == [0, 1, 2, 3]
    with pytest.raises(dc.UsageError, match="frames"):
        dc.Film(2)


@pytest.mark.slow
def test_a_filmed_training_ends_with_the_same_bits_and_its_frames_are_those_of_its_weights(tmp_path: Path) -> None:
    filmed, plain = trained(tmp_path / "filmed", dc.Film(4)), trained(tmp_path / "plain")
    for name, weight in plain.model.state_dict().items():
        assert torch.equal(weight, filmed.model.state_dict()[name])
    steps = frame_steps(40, 4)
    assert frames_in(filmed.dir / "pictures") == {"samples": steps}
    assert pictures_in_log(filmed.dir) == [(step, "samples") for step in steps]
    again = save(film_figures(filmed.model, filmed.data, 0)["samples"], tmp_path / "again.png")
    assert again.read_bytes() == (filmed.dir / "pictures" / "film" / "samples-40.png").read_bytes()
    kinds = [each for each in without_times(filmed.dir) if each["kind"] != "picture"]
    assert kinds == without_times(plain.dir)


@pytest.mark.slow
def test_a_film_that_was_broken_off_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", dc.Film(4))
    with pytest.raises(KeyError):
        trained(tmp_path / "broken", dc.Film(4), Killer(at=7))  # after the frame of step 6, which is drawn again
    resumed = dc.Run(tmp_path / "broken").resume(quiet=True, observers=[dc.Film(4)])
    assert without_times(resumed.dir) == without_times(whole.dir)
    assert (resumed.dir / "model.safetensors").read_bytes() == (whole.dir / "model.safetensors").read_bytes()
    frames = sorted((whole.dir / "pictures" / "film").iterdir())
    assert [frame.name for frame in frames] == sorted(f.name for f in (resumed.dir / "pictures" / "film").iterdir())
    assert all(frame.read_bytes() == (resumed.dir / "pictures" / "film" / frame.name).read_bytes() for frame in frames)


def test_a_picture_that_fails_costs_a_frame_and_not_the_training(tmp_path: Path, monkeypatch: Any) -> None:
    def broken(*_: Any) -> dict[str, Any]:
        raise RuntimeError("no ink")

    monkeypatch.setattr("deepcanon.pictures.run_pictures.film_figures", broken)
    run = trained(tmp_path / "run", dc.Film(3))
    assert run.info["status"] == "finished"
    assert frames_in(run.dir / "pictures") == {}
