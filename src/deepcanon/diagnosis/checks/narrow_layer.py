"""Width of the layers: no layer between wider ones is a single unit, through which one number passes.

Measured, where a training with labels leaves more than half of the constant answer's loss: linear layers of one output
in an ``nn.Sequential`` that are followed by one of more outputs. Named only if a copy in which that layer is as wide as
the narrower of its neighbors, and 16 units at least, leaves half of the loss at most, for two seeds. No threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from torch import nn

from deepcanon.diagnosis.copies import together
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, helps, learns_little
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "dynamics", 85

WIDE = 16
"""A wider layer has so many units at least, however few its neighbors have."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.optimizer is None or patient.baseline is None or patient.task == "none":
        raise Skip("it is trained by turns, or the loss of a constant answer is not known")
    narrow = list(_narrow(patient.model))
    patient.note(narrow=len(narrow))
    if not narrow or not learns_little(patient):
        return
    found = compare(patient, Change("with wider layers"), by=_widened(patient))
    if helps(patient, found):
        container, one, _ = narrow[0]
        names = {module: name for name, module in patient.model.named_modules()}
        yield Diagnosis(
            cause="bottleneck/underfitting",
            evidence={"width": 1, **found.evidence()},
            advice="make this layer wider",
            where=names[container[one]],
            confirmed_by="a copy with a wider layer gains, for two seeds",
        )


def _narrow(model: nn.Module) -> Iterator[tuple[nn.Sequential, int, int]]:
    """The places of linear layers of one output, and of the linear layers that read them."""
    for container in model.modules():
        if isinstance(container, nn.Sequential):
            places = [place for place, layer in enumerate(container) if any(True for _ in layer.parameters())]
            for one, other in pairwise(places):
                first, second = container[one], container[other]
                if not (isinstance(first, nn.Linear) and isinstance(second, nn.Linear)):
                    continue
                if first.out_features == second.in_features == 1 < min(first.in_features, second.out_features):
                    yield container, one, other


def _widened(patient: Patient) -> Patient:
    """The same training of a copy whose narrow layers are as wide as the narrower of their neighbors, or wider."""
    model, optimizer = together(patient.model, patient.optimizer)
    assert optimizer is not None
    for container, one, other in list(_narrow(model)):
        first, second = container[one], container[other]
        assert isinstance(first, nn.Linear)
        assert isinstance(second, nn.Linear)
        width = max(WIDE, min(first.in_features, second.out_features))
        wider = (
            nn.Linear(first.in_features, width, first.bias is not None, dtype=first.weight.dtype),
            nn.Linear(width, second.out_features, second.bias is not None, dtype=second.weight.dtype),
        )
        for old, new in zip((first, second), wider, strict=True):
            swapped = dict(zip(map(id, old.parameters()), new.parameters(), strict=True))
            for group in optimizer.param_groups:
                group["params"] = [swapped.get(id(p), p) for p in group["params"]]
        container[one], container[other] = wider
    optimizer.state.clear()
    return replace(patient, model=model, optimizer=optimizer)
