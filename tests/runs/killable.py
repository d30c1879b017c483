"""A training in a process of its own that can be killed anywhere; used by test_resume.py."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # what optimizers and pictures import at first use is imported once, before the forks

import deepcanon as dc
import deepcanon.pictures
from deepcanon.core import Model, Terms
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder
from deepcanon.train import Observer, Trainer

STEPS, SAVE_EVERY = 160, 7
DIGITS = dc.load_data("digits")
DOMAINS = dc.load_data("two-domains")


def make(name: str) -> tuple[Model[Any], Any]:
    """A small model of each kind of learning, with data for it."""
    torch.manual_seed(5)
    arguments: dict[str, dict[str, Any]] = {
        "mlp": {"features": 64, "classes": 10, "hidden": (32,), "dropout": 0.3},
        "vae": {"features": 64, "latent": 4, "hidden": (32,)},
        "gan": {"features": 64, "hidden": (32,)},
        "cyclegan": {"features": 2, "hidden": (16,), "history": 100},
        "deepar": {"features": 1, "statics": 3, "units": 4, "layers": 2, "dropout": 0.3, "head": "negative_binomial"},
    }
    return dc.find(name)(**arguments[name]), data_of(name)


def data_of(name: str) -> Any:
    return DOMAINS if name == "cyclegan" else series() if name == "deepar" else DIGITS


def series() -> Any:
    """Series of counts of unequal length."""
    x = torch.poisson(torch.full((192, 9, 1), 4.0), generator=torch.Generator().manual_seed(0))
    return dc.from_tensors(x, lengths=5 + torch.arange(192) % 5, statics=torch.arange(192).unsqueeze(1) % 3)


class Reporter(Observer):
    """Tells the parent when a certain step is reached; the training goes on meanwhile."""

    def __init__(self, pipe: Connection, step: int) -> None:
        self.pipe = pipe
        self.at = step

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if trainer.step == self.at:
            self.pipe.send(trainer.step)


def train(name: str, folder: Path, pipe: Connection, report_at: int, pause_in: str) -> None:
    """Begin the run, or go on with it; stand still inside the next checkpoint write where ``pause_in`` says so."""
    torch.set_num_threads(1)
    if pause_in:
        _pause(pause_in, pipe, after=report_at)
    observer = Reporter(pipe, 0 if pause_in else report_at)
    if checkpoint.saved(folder / "checkpoints"):
        from deepcanon.runs.resume import resume

        resume(folder, make(name)[1], find=dc.find, quiet=True, observers=[observer])
    else:
        model, data = make(name)
        dc.fit(
            model, data, out=folder, overwrite=True, quiet=True, observers=[observer],
            steps=STEPS, batch_size=64, checkpoint_every=SAVE_EVERY, patience=50, seed=3,
        )  # fmt: skip
    pipe.send("done")


def _pause(place: str, pipe: Connection, after: int) -> None:
    """Stop for ever at a place inside the write of the first checkpoint past a step."""
    save, original = checkpoint.save, getattr(os, place)
    inside = False

    def pausing_save(folder: Path, step: int, state: Any) -> Path:
        nonlocal inside
        inside = step >= after
        return save(folder, step, state)

    def pausing(*arguments: Any) -> Any:
        if inside:
            pipe.send(place)
            time.sleep(600)
        return original(*arguments)

    checkpoint.save = pausing_save
    setattr(os, place, pausing)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The final weights and everything in the last checkpoint, as bits."""
    tensors = RunFolder.open(folder).read_weights()
    last = checkpoint.latest(folder / "checkpoints").state
    from deepcanon.runs.tree import flatten

    _, state = flatten({key: last[key] for key in ("model", "players", "random", "average")})
    return {**tensors, **state}
