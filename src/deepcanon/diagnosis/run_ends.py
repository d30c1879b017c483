"""Both ends of a run: the model that its training began with, and what that came to."""

from __future__ import annotations

from typing import Any

from deepcanon.core import CheckpointError, Model, UsageError
from deepcanon.runs import checkpoint
from deepcanon.runs.resume import built_from
from deepcanon.runs.run import Run
from deepcanon.train import randomness


def start_of(run: Run) -> Model[Any]:
    """The model as the run's description builds it, with weights drawn by the run's seed."""
    with randomness.kept():
        randomness.seed_all(run.settings["seed"])
        return built_from(run.folder, run.find)


def end_of(run: Run) -> Model[Any] | None:
    """The model with the run's final weights; of a run that has none, with those of its last whole checkpoint."""
    try:
        return run.model
    except (CheckpointError, UsageError):
        model = start_of(run)
    try:
        model.load_state_dict(checkpoint.latest(run.folder.checkpoints).state["model"])
    except (CheckpointError, RuntimeError):
        return None
    return model.eval()
