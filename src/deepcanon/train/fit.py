"""Train, go on, load: the functions that users call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deepcanon.core import DataError, Model, UsageError, build
from deepcanon.data import Dataset, load_data
from deepcanon.data.tensors import SOURCE as FROM_TENSORS
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import Run, environment
from deepcanon.train import randomness
from deepcanon.train.observers import Observer
from deepcanon.train.progress import say
from deepcanon.train.settings import Settings
from deepcanon.train.trainer import Result, Trainer

Find = Callable[[str], type[Model[Any]]]


def fit(
    model: Model[Any],
    data: Dataset[Any],
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> Result:
    """Train ``model`` on ``data``; with ``out`` into a run's folder, without it nothing is written to disk.

    ``settings`` are those of :class:`Settings`; what is not given comes from the model's recipe.

    >>> from deepcanon.core.toy import Toy
    >>> from deepcanon.data import from_tensors
    >>> model, batch = Toy.example()
    >>> result = fit(model, from_tensors(batch.x), quiet=True, epochs=60)
    >>> bool((model.mean - batch.x.mean(0)).abs().max() < 0.05)
    True
    """
    trainer = Trainer(model, data, Settings.resolve(model.recipe, **settings), quiet=quiet, observers=observers)
    if out is not None:
        trainer.write_to(Path(out), overwrite=overwrite)
    return trainer.fit()


def resume(
    folder: str | Path,
    data: Dataset[Any] | None = None,
    *,
    find: Find,
    quiet: bool = False,
    observers: Sequence[Observer] = (),
) -> Result:
    """Go on with a run from its last whole checkpoint; the parameters end as if it had never been broken off.

    ``data`` is needed only where the run's data cannot be loaded by name.
    """
    run = Run.open(folder)
    model = _built(run, find)
    if run.info["status"] == "finished" and run.weights.is_file():
        model.load_state_dict(run.read_weights())
        model.eval()
        results = run.info["results"]
        return Result(model, run.dir, **results, weights=run.info["weights"], history=run.log())
    found = checkpoint.latest(run.checkpoints)
    trainer = Trainer(model, _same_data(run, data), run.settings, quiet=quiet, observers=observers)
    if trainer.world.first:
        checkpoint.set_aside_damaged(run.checkpoints, found.path)
    trainer.go_on(run, found.state)
    if not trainer.quiet:
        for complaint in found.complaints:
            say(f"{complaint}; going on from {found.path.name}")
        for difference in _differences(run, trainer.world.size):
            say(difference)
    return trainer.fit()


def load(folder: str | Path, *, find: Find) -> Model[Any]:
    """The trained model of a run, in evaluation mode."""
    run = Run.open(folder)
    model = _built(run, find)
    model.load_state_dict(run.read_weights())
    return model.eval()


def _built(run: Run, find: Find) -> Model[Any]:
    with randomness.kept():  # initial weights are drawn, then replaced
        model = build(run.info["model"], find)
    for part in model.modules():
        if isinstance(part, Model):  # a method wraps others, which know the tokens too
            part.vocabulary = tuple(run.info["data"]["vocabulary"])
    return model


def _same_data(run: Run, data: Dataset[Any] | None) -> Dataset[Any]:
    """The data the run was begun with; other data would silently make it another run."""
    info = run.info["data"]
    if data is None:
        if info["source"] == FROM_TENSORS:
            raise UsageError(f"{run.dir} was trained on tensors given in Python: give the same data to resume")
        # A file is found again by its absolute path, from whatever folder the run is resumed.
        form = info["preprocessing"].get("form")
        path = f"{info['source']}:{form}" if form else info["source"]
        place = path if Path(info["source"]).exists() else info["name"]
        data = load_data(place, target=info["target"], preprocessing=info["preprocessing"] or None)
    if data.fingerprint() != info["fingerprint"]:
        raise DataError(f"the data {data.name} are not those that {run.dir} was begun with; resuming needs the same")
    return data


def _differences(run: Run, processes: int) -> list[str]:
    """What has changed since the run began and may change the last bits of the result."""
    before, now = run.info["environment"], environment(processes)
    names = {"torch": "the torch version", "threads": "the number of threads", "processes": "the number of processes"}
    return [
        f"{words} was {before[key]} and is {now[key]} now: the result may differ in its last bits"
        for key, words in names.items()
        if before[key] != now[key]
    ]
