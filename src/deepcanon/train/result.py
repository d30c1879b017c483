"""The result of a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepcanon.core import Model
from deepcanon.train.health import BaselineScores
from deepcanon.train.scores import ClassScores


@dataclass(frozen=True, eq=False)
class Result:
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
