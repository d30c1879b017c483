"""Restoring of a training from a checkpoint, whose state is first held to its schema and to the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepcanon.core import CheckpointError, DeepcanonError
from deepcanon.core.stored import held_to
from deepcanon.runs import checkpoint
from deepcanon.runs.contents import State
from deepcanon.runs.stored_tensors import check_tensors

if TYPE_CHECKING:
    from deepcanon.train.trainer import Trainer


def restore(trainer: Trainer, path: Path, state: dict[str, Any]) -> None:
    """Let the trainer take over the state of a checkpoint; what is not that of its training is a CheckpointError."""
    values, tensors = path / checkpoint.VALUES, path / checkpoint.TENSORS
    held_to(State, state, values)
    if f"step-{state['step']:09d}" != path.name or state["step"] > trainer.total:
        raise CheckpointError(
            f"{values} is of step {state['step']}, not of {path.name}, of a training of {trainer.total}"
        )
    expected = trainer.model.state_dict()
    check_tensors(expected, state["model"], tensors)
    check_tensors(_numbered(trainer.average.state()), _numbered(state["average"]), tensors)
    try:
        trainer.take_over(state)
        if trainer.watch is not None and trainer.watch.weights:
            check_tensors(expected, trainer.watch.weights, tensors)
    except DeepcanonError as error:
        raise CheckpointError(f"{values} is not of this training: {error}") from error
    except Exception as error:  # whatever a state that was made up lets torch or an observer say
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise CheckpointError(f"{values} is not of this training: {reason}") from error


def _numbered(weights: list[Any]) -> dict[str, Any]:
    return {f"average {place}": weight for place, weight in enumerate(weights)}
