"""Trainings killed with SIGKILL anywhere: resumed, they end with the bits of an unbroken one."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from functools import cache
from pathlib import Path
from typing import Any

from tests.attacks._frame import Child, Trial, fault, start

KINDS: dict[str, dict[str, Any]] = {
    "mlp": {"features": 64, "classes": 10, "hidden": (32,), "dropout": 0.3},
    "vae": {"features": 64, "latent": 4, "hidden": (32,)},
    "gan": {"features": 64, "hidden": (32,)},
    "cyclegan": {"features": 2, "hidden": (16,), "history": 100},
    "deepar": {"features": 1, "statics": 3, "units": 4, "layers": 2, "dropout": 0.3, "head": "negative_binomial"},
    "lstm": {"vocab": 12, "units": 8, "layers": 2, "dropout": 0.2},
    "word2vec": {"vocab": 12, "latent": 4, "window": 2, "subsample": 1.0},
    "bagging": {"members": 3},
    "score_matching": {"features": 2, "hidden": (16,)},
}
"""The models that are trained, one for each way of learning that a checkpoint must know, with their sizes."""
TRAIN, STEPS, SAVE_EVERY = "tests.attacks.kills:train", 60, 7
PLACES = ("rename", "replace", "fsync", "mkdir", "rmdir", "unlink", "open", "fstat")
"""The functions of the system in whose calls a training is killed, before or after they have done their work."""


class Attack:
    FAST, SLOW = 1, 4

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds: dict[str, float] = {}

    def unbroken(self, name: str) -> Path:
        """The run that nobody has disturbed, of each model one."""
        run = self.folder / name
        if not run.exists():
            ended = start(TRAIN, name, str(run), "", 0, cwd=self.folder).wait()
            assert ended.code == 0, ended.err
            self.seconds[name] = ended.seconds
        return run

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        name, by_time, share = chance.choice(list(KINDS)), chance.random() < 0.5, chance.random()
        place, call = f"{chance.choice(('before', 'after'))} {chance.choice(PLACES)}", chance.randrange(1, 120)
        wanted = self.unbroken(name)
        for attempt in itertools.count():  # a run that has ended before its kill is begun again and killed earlier
            run, earlier = folder / f"run-{attempt}", 2**attempt
            if by_time and attempt < 5:  # on a machine that is too busy to kill it in time, it kills itself
                delay = 0.8 * share * self.seconds[name] / earlier
                what = f"{name}, killed {delay:.3f} s after its first checkpoint"
                killed = _killed_after(start(TRAIN, name, str(run), "", 0, cwd=folder), run, delay)
            else:
                what = f"{name}, killed {place}, call {max(1, call // earlier)}"
                killed = start(TRAIN, name, str(run), place, max(1, call // earlier), cwd=folder).wait().code
            if killed == -signal.SIGKILL:
                break
            if killed != 0 or attempt == 10:
                return Trial(what, f"it ended with the code {killed} in place of the kill")
        again = start(TRAIN, name, str(run), "", 0, cwd=folder).wait()
        wrong = fault(again) or (f"the resumed run failed: {again.err[-300:]}" if again.code else "")
        return Trial(what, wrong or differences(wanted, run))


def _killed_after(child: Child, run: Path, delay: float) -> int | None:
    """The code with which a training ends that is killed so many seconds after its first checkpoint is there."""
    while child.process.is_alive() and not (run / "run.json").exists():
        time.sleep(0.001)
    time.sleep(delay)
    child.kill()
    return child.wait().code


def differences(wanted: Path, run: Path) -> str:
    """Where two finished runs differ: in final weights, the last checkpoint, results or log; empty where nowhere."""
    import torch

    from deepcanon.runs import checkpoint
    from deepcanon.runs.folder import RunFolder
    from deepcanon.runs.tree import flatten

    def content(folder: Path) -> dict[str, Any]:
        opened = RunFolder.open(folder)
        last = checkpoint.latest(opened.checkpoints).state
        plain, tensors = flatten({key: last[key] for key in ("step", "model", "players", "random", "average")})
        results = {key: value for key, value in opened.info["results"].items() if key != "seconds"}
        records, complaints = opened.checked_log()
        for record in records:
            del record["seconds"]
        others = {"state": plain, "results": results, "log": records, "complaints": complaints}
        return {**opened.read_weights(), **tensors, **others, "status": opened.info["status"]}

    one, other = content(wanted), content(run)
    different = [*(one.keys() ^ other.keys())]
    for name in one.keys() & other.keys():
        same = torch.equal(one[name], other[name]) if isinstance(one[name], torch.Tensor) else one[name] == other[name]
        different += [] if same else [name]
    return f"it ended otherwise than unbroken: {', '.join(sorted(different)[:5])}" if different else ""


def train(name: str, folder: str, place: str, call: int) -> None:
    """Begin the run, or go on with it; in the child, which kills itself at this call of this function of the system."""
    import deepcanon as dc
    import deepcanon.pictures
    from deepcanon.runs import checkpoint
    from deepcanon.runs.resume import resume

    deepcanon.pictures.draw_run = lambda *_: []
    if place:
        _kill_at(place, call)
    run, data = Path(folder), data_of(name)
    if (run / "run.json").exists() and checkpoint.saved(run / "checkpoints"):
        resume(run, data, find=dc.find, quiet=True)
    else:
        dc.fit(
            model_of(name), data, out=run, quiet=True,
            steps=STEPS, batch_size=32, checkpoint_every=SAVE_EVERY, patience=50, seed=3,
        )  # fmt: skip


def _kill_at(place: str, call: int) -> None:
    """Let the process die by SIGKILL before or after the so many-th call of a function of ``os``."""
    when, _, name = place.partition(" ")
    original, calls = getattr(os, name), itertools.count(1)

    def dying(*arguments: Any, **options: Any) -> Any:
        last = next(calls) == call
        if last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **options)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, name, dying)


def model_of(name: str) -> Any:
    import torch

    import deepcanon as dc

    torch.manual_seed(5)
    if name == "bagging":
        return dc.find(name)(dc.find("mlp")(**KINDS["mlp"]), **KINDS[name])
    return dc.find(name)(**KINDS[name])


@cache
def data_of(name: str) -> Any:
    """Small data for each model."""
    import torch

    import deepcanon as dc

    generator = torch.Generator().manual_seed(0)
    if name in ("lstm", "word2vec"):
        return dc.from_tensors(torch.randint(12, (160, 10), generator=generator), lengths=4 + torch.arange(160) % 7)
    if name == "deepar":
        x = torch.poisson(torch.full((160, 9, 1), 4.0), generator=generator)
        return dc.from_tensors(x, lengths=5 + torch.arange(160) % 5, statics=torch.arange(160).unsqueeze(1) % 3)
    return dc.load_data({"cyclegan": "two-domains", "score_matching": "moons"}.get(name, "digits"))
