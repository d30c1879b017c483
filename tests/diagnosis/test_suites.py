"""A sample of the doctor's suites; ``benchmarks/doctor.py`` runs all of them."""

from __future__ import annotations

import pytest

import deepcanon as dc
from tests.diagnosis.cases.case import Case, is_named
from tests.diagnosis.cases.harm import harm
from tests.diagnosis.cases.suites import faults, healthy

SAMPLED_FAULTS = (
    "softmax at the end of digits mlp",
    "targets of another shape of regression",
    "no zero grad of digits mlp",
    "layers in a list of digits mlp",
    "hidden layer detached of regression",
    "missing entries of regression",
    "optimizer of another network of digits mlp",
    "no mask of letter model",
    "sign of the log determinant of realnvp",
)
SAMPLED_HEALTHY = (
    "two moons as it is",
    "gradients accumulated of digits mlp",
    "few patterns in all splits of tumors",
    "linear model from zero of tumors",
)


def _case(cases: list[Case], name: str) -> Case:
    (found,) = (case for case in cases if case.name == name)
    return found


def test_the_suites_are_large_and_every_name_is_one_case() -> None:
    names = [case.name for case in (*faults(), *healthy())]
    assert len(set(names)) == len(names)
    assert len(faults()) >= 100
    assert len(faults(plain=True)) >= 30
    assert len(healthy()) >= 120
    assert {case.area for case in faults()} == {"recipe", "data", "code", "family"}
    assert all(case.causes for case in faults())
    assert not any(case.causes for case in healthy())


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED_FAULTS)
def test_a_planted_fault_is_named_first(name: str) -> None:
    case = _case(faults(), name)
    patient = case.patient()
    named = [finding.cause for finding in dc.doctor(patient.model, patient.data, **patient.arguments())]
    assert named
    assert is_named(named[0], case.causes)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED_HEALTHY)
def test_a_healthy_training_is_let_pass(name: str) -> None:
    patient = _case(healthy(), name).patient()
    assert list(dc.doctor(patient.model, patient.data, budget=10, **patient.arguments())) == []


@pytest.mark.slow
def test_a_fault_hurts_and_its_healthy_twin_learns() -> None:
    found = harm(_case(faults(), "optimizer of another network of digits mlp"))
    assert found.healthy > 0.9
    assert found.hurts
