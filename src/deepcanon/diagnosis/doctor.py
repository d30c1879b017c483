"""The doctor: examines a training check by check, from the data to the dynamics, and names the first cause."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepcanon.core.errors import DeepcanonError
from deepcanon.core.hints import unknown
from deepcanon.diagnosis import clock, thresholds
from deepcanon.diagnosis.admission import admit, left_alone
from deepcanon.diagnosis.health_report import Diagnosis, Report
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.train import randomness

STAGES = ("data", "wiring", "loss", "start", "optimizer", "dynamics", "family")
"""The order of the checks: a cause comes before its symptoms."""


@dataclass(frozen=True)
class Check:
    """A check: a file of ``checks/``, found by its name."""

    name: str
    stage: str
    place: int
    """Its place among the checks of its stage: exact and cheap ones first."""
    stops: bool
    """Whether its faults explain what later checks would see, so that these are not made."""
    examine: Callable[[Patient], Iterable[Diagnosis] | None]
    explanation: str
    """What is measured and why, the threshold and where it comes from, the paper."""


@cache
def checks() -> tuple[Check, ...]:
    """All checks in the order in which they are made."""
    files = sorted((Path(__file__).parent / "checks").glob("[!_]*.py"))
    found = [_check(importlib.import_module(f"deepcanon.diagnosis.checks.{file.stem}"), file.stem) for file in files]
    return tuple(sorted(found, key=lambda check: (STAGES.index(check.stage), check.place, check.name)))


def _check(module: Any, name: str) -> Check:
    return Check(
        name, module.STAGE, module.PLACE, getattr(module, "STOPS", True), module.check, inspect.getdoc(module) or ""
    )


def explain(name: str) -> str:
    """What a check measures and why, its threshold and where that comes from, and the paper."""
    wanted = name.replace("-", "_")
    for check in checks():
        if check.name == wanted:
            numbers = thresholds.described(wanted)
            return f"{check.explanation}\n\nHealthy ranges:\n{numbers}" if numbers else check.explanation
    raise unknown("check", name, [check.name for check in checks()], "'deepcanon doctor --explain all' shows all")


def doctor(
    model: Any,
    data: Any = None,
    *,
    loss: Callable[..., Tensor] | None = None,
    optimizer: Any = None,
    step: Callable[..., Any] | None = None,
    budget: float = 60.0,
    thorough: bool = False,
    **settings: Any,
) -> Report:
    """Examine a training and say what is ill and why; a healthy one gives no finding.

    ``model`` is a model of the catalogue by name, a model or any ``torch.nn.Module``, ``FILE.py:Class``, or the folder
    of a run. ``data`` are what :func:`deepcanon.fit` takes. A plain module comes with the ``loss(outputs, targets)``
    that it is trained by, and with its ``optimizer``: a torch optimizer that holds its parameters, a function that
    makes one of parameters, or a name. ``step`` is a training step of the user's own, called ``step(model, optimizer,
    batch)``, or with the number of the step as a fourth argument; a batch of a plain module is ``(x, y)``. ``settings``
    are the training settings (``lr``, ``batch_size`` ...).

    Copies are examined: the model, the optimizer and all random states are bit for bit as they were afterwards. The
    examination ends at the first cause that is confirmed, since that explains what comes after; ``thorough`` goes on.
    ``budget`` is in seconds.

    >>> from torch import nn
    >>> x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    >>> net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(dim=1))
    >>> report = doctor(net, (x, (x.sum(1) > 0).long()), loss=nn.CrossEntropyLoss(), optimizer="adam", lr=0.01)
    >>> [finding.cause for finding in report]
    ['softmax before cross-entropy']
    """
    with left_alone(model, optimizer):
        patient = admit(model, data, loss=loss, optimizer=optimizer, step=step, budget=budget, settings=settings)
        return examine(patient, thorough=thorough)


def examine(patient: Patient, *, thorough: bool = False, only: Iterable[str] | None = None) -> Report:
    """Make the checks of a patient in their order; ``only`` names some of them."""
    report = Report(patient.name, patient.data.name)
    patient.thorough = thorough
    start = clock.now()
    cause = ""
    for check in checks():
        if only is not None and check.name not in only:
            continue
        if cause and not thorough:
            report.skipped[check.name] = f"{cause} explains what it would see"
            continue
        if patient.left <= 0:
            report.skipped[check.name] = "the budget was spent"
            continue
        found = _examined(check, patient, report)
        if any(each.grade == "fault" for each in found) and cause and thorough:
            first = next(index for index, each in enumerate(report.diagnoses) if each.grade == "fault")
            told = tuple(f"{each.check}: {each.cause}" for each in found if each.grade == "fault")
            report.diagnoses[first] = replace(
                report.diagnoses[first], explains=(*report.diagnoses[first].explains, *told)
            )
            report.diagnoses += [each for each in found if each.grade != "fault"]
            continue
        report.diagnoses += found
        if check.stops and not cause:
            cause = next((each.cause for each in found if each.grade == "fault"), "")
    report.seconds = clock.now() - start
    return report


def _examined(check: Check, patient: Patient, report: Report) -> list[Diagnosis]:
    """What one check finds; it draws from no one's random numbers, and where it cannot be made it says so."""
    patient.numbers = {}
    try:
        with randomness.kept(), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a faulty training does: the report says what matters
            randomness.seed_all(0)
            found = [replace(each, check=check.name) for each in check.examine(patient) or ()]
    except Skip as reason:
        report.skipped[check.name] = str(reason)
        return []
    except (DeepcanonError, RuntimeError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError,
            NotImplementedError, KeyError, AssertionError) as error:  # fmt: skip
        report.skipped[check.name] = f"it could not be measured: {type(error).__name__}: {error}"[:300]
        return []
    if not any(each.grade == "fault" for each in found):
        report.passed[check.name] = dict(patient.numbers)
    return found
