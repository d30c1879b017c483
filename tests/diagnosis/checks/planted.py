"""Small patients of the doctor for its tests: a model by its words, broken by methods of a faulty subclass."""

from __future__ import annotations

from functools import cached_property
from typing import Any
from unittest.mock import patch

import torch

from deepcanon.blueprints import blueprint
from deepcanon.data import Dataset, of
from deepcanon.diagnosis.admission import admit
from deepcanon.diagnosis.doctor import examine
from deepcanon.diagnosis.health_report import Report
from deepcanon.diagnosis.patient import Patient

NO_CLOCK = 1e6
"""A budget in seconds that nothing exceeds: no clock decides what a test finds."""


def report_of(
    check: str,
    model: Any,
    data: Any,
    *,
    steps: int = 200,
    loss: Any = None,
    optimizer: Any = None,
    methods: dict[str, Any] | None = None,
    **settings: Any,
) -> Report:
    """What one check says of a model, given as itself or by its words, with these methods in place of its own.

    Its trials have so many steps, however long these take.
    """
    examples = data if isinstance(data, Dataset) or loss is not None else of(data)
    if isinstance(model, str):
        torch.manual_seed(0)
        model = blueprint(model).build(examples.model_sizes, examples.name)
    if methods:
        cls = type(model)
        model.__class__ = type(cls.__name__, (cls,), {**methods, "__module__": cls.__module__})
    patient = admit(model, examples, loss=loss, optimizer=optimizer, budget=NO_CLOCK, settings=settings)
    course = cached_property(lambda self: self.train(steps))
    with patch.object(Patient, "reference", course):
        course.__set_name__(Patient, "reference")
        return examine(patient, only=[check])


def causes(report: Report) -> list[str]:
    return [finding.cause for finding in report]


def parent(model: Any) -> Any:
    """The class whose methods the planted ones stand for."""
    return type(model).__mro__[1]
