"""Baselines of fine-tuning with few parameters: the model as it was, its last layer alone, and all of it trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deepcanon.blueprints import blueprint
from deepcanon.core import Blueprint, Descend, Model, UsageError
from deepcanon.data import Dataset
from deepcanon.runs.label_baselines import Baseline, built, logistic_regression, measured, says
from deepcanon.train import Settings, fit


def tuning_baselines(
    method: Model[Any],
    asked: Blueprint,
    data: Dataset[Any],
    settings: Settings,
    notify: Callable[[str], None] = lambda sentence: None,
) -> list[Baseline]:
    """The wrapped model fine-tuned in other ways from the same start by the same settings, with what each trains."""
    held = data.split("valid" if data.test is None else "test")
    base = asked.arguments["model"]
    cases = {
        "before fine-tuning": None,
        "the last layer alone": Blueprint(blueprint("transfer").cls, {"model": base, "head": "kept"}),
        "full fine-tuning": base,
    }
    found = [measured("LogisticRegression (scikit-learn)", logistic_regression(data), held)]
    for name, case in cases.items():
        try:
            model = built(case or base, data, settings)
        except UsageError:  # not every model has a last layer that can be trained alone
            continue
        if case is not None:
            notify(f"To compare, {name}: training by the same settings ...")
            fit(model, data, quiet=True, **settings)
        found.append(measured(f"{name} ({_trained(model) if case else 0:,} parameters)", says(model), held))
    return [*found, measured(f"{method.name()} ({_trained(method):,} parameters)", says(method), held)]


def _trained(model: Model[Any]) -> int:
    """The number of parameters that a training changes."""
    turns = [turn for turn in model.turns() if isinstance(turn, Descend)]
    return sum({id(p): p.numel() for turn in turns for p in turn.parameters if p.requires_grad}.values())
