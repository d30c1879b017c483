"""Learning curves for studies: a model trained as any other, whose divergence is a result and not an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepcanon.core import DivergenceError, Model
from deepcanon.data import Dataset
from deepcanon.train import Trainer
from deepcanon.train.settings import resolve_settings


@dataclass(frozen=True)
class Curve:
    """How a training went."""

    steps: list[int]
    losses: list[float]
    """The training loss up to each of these steps, a mean over the few steps since the one before."""
    diverged: bool
    """Whether the loss went to infinity, where the curve then ends."""


def learning_curve(model: Model[Any], data: Dataset[Any], **settings: Any) -> Curve:
    """Train the model as these settings of the trainer say; what is not given comes from its recipe."""
    trainer = Trainer(model, data, resolve_settings(model.recipe, **settings), quiet=True)
    diverged = False
    try:
        trainer.fit()
    except DivergenceError:
        diverged = True
    records = [record for record in trainer.log.history if record["kind"] == "step"]
    return Curve([record["step"] for record in records], [record["loss"] for record in records], diverged)
