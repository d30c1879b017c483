"""The result of a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepcanon.core import Model
from deepcanon.core.display import Shown, notebook, scores_table, sentences, table
from deepcanon.train.health import BaselineScores
from deepcanon.train.live_curve import curve_of
from deepcanon.train.scores import ClassScores


@dataclass(frozen=True, eq=False)
class Result(Shown):
    """The result of a training: the model, and its terms and metrics on each split of the data."""

    model: Model[Any]
    run: Path | None
    steps: int
    seconds: float
    weights: str
    train: dict[str, float]
    valid: dict[str, float]
    test: dict[str, float]
    history: list[dict[str, Any]] = field(repr=False)
    baseline: BaselineScores | None = None
    """What a prediction that uses no input reaches: the class prior, the mean, a marginal distribution."""
    by_class: dict[str, list[ClassScores]] = field(default_factory=dict, repr=False)
    """The scores of each class, on each split."""
    says: list[str] = field(default_factory=list)
    """What the numbers come to, a sentence each."""
    course: list[str] = field(default_factory=list)
    """What there is to say on the course of the training: that it was best long before its end."""

    def _facts(self) -> dict[str, Any]:
        about = {"model": self.model, "steps": self.steps, "seconds": self.seconds, "weights": self.weights}
        return {**about, **({} if self.run is None else {"run": str(self.run)}), "test": self.test or self.valid}

    def _repr_html_(self) -> str:
        about = [(name, value) for name, value in self._facts().items() if name != "test"]
        scores = {"train": self.train, "valid": self.valid, "test": self.test}
        said = sentences([*self.says, *self.course])
        return notebook("Result", table([], about), scores_table(scores), said, curve_of(self.history))
