"""The model after a training: that of a run, or of the trial that the doctor makes."""

from __future__ import annotations

import copy
from typing import Any

from deepcanon.core import Model
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.run_ends import end_of
from deepcanon.diagnosis.trial import Change, Course

ENOUGH = 60
"""A trial of fewer steps says nothing about where a training leads."""


def ours(patient: Patient) -> Model[Any]:
    """The model of the contract, without which the family is not known."""
    if patient.ours is None:
        raise Skip("a plain module does not say what it models")
    return patient.ours


def trained(patient: Patient, seed: int = 0, least: int = ENOUGH) -> Any:
    """A copy of the model after training, in eval mode; with seed 1, of a second trial, of at least so many steps.

    Of a run it is what the run has come to, whatever the seed.
    """
    if patient.run is not None:
        end = end_of(patient.run)
        if end is None:
            raise Skip("the run has left no weights")
        return copy.deepcopy(end).eval()
    return _end(patient.second_reference if seed else patient.reference, least)


def repaired(patient: Patient, change: Change, seed: int = 0, least: int = ENOUGH) -> Any:
    """A copy of the model after a trial with one thing changed, in eval mode."""
    return _end(patient.train(seed=seed, change=change), least)


def _end(course: Course, least: int) -> Any:
    if not course.finite:
        raise Skip("the trial did not stay finite, which another check says")
    if course.asked < least:
        raise Skip(f"the budget allows {course.asked} steps, too few to see where the training leads")
    return copy.deepcopy(course.model).eval()
