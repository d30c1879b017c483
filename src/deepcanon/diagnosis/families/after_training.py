"""The model after a training: that of a run, or of the trial that the doctor makes."""

from __future__ import annotations

import copy
from typing import Any

import torch

from deepcanon.core import Model
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.trial import Change

ENOUGH = 60
"""A trial of fewer steps says nothing about where a training leads."""


def ours(patient: Patient) -> Model[Any]:
    """The model of the contract, without which the family is not known."""
    if patient.ours is None:
        raise Skip("a plain module does not say what it models")
    return patient.ours


def trained(patient: Patient, seed: int = 0) -> Any:
    """A copy of the model after training, in eval mode; with seed 1, of a second trial.

    Of a run it is what the run has come to, whatever the seed.
    """
    if patient.run is not None:
        return copy.deepcopy(patient.model).eval()
    return _end(patient.second_reference if seed else patient.reference)


def repaired(patient: Patient, change: Change, seed: int = 0) -> Any:
    """A copy of the model after a trial with one thing changed, in eval mode."""
    return _end(patient.train(seed=seed, change=change))


def _end(course: Any) -> Any:
    if not course.finite:
        raise Skip("the trial did not stay finite, which another check says")
    if course.asked < ENOUGH:
        raise Skip(f"the budget allows {course.asked} steps, too few to see where the training leads")
    return copy.deepcopy(course.model).eval()


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)
