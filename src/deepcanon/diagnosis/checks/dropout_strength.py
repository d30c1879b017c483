"""Dropout: it leaves enough units to learn from.

Measured: the largest dropout probability of the layers, or of functions that the forward pass calls. Suspected from
0.75 on in a training that learns little, and from 0.95 on in any; named only if a copy without dropout gains, for two
seeds. Srivastava et al., 2014,
https://jmlr.org/papers/v15/srivastava14a.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from deepcanon.diagnosis.anatomy import Operations
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, is_stuck
from deepcanon.diagnosis.repairs import NO_DROPOUT
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "dynamics", 10

STRONG, EXTREME = 0.75, 0.95
DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})


def check(patient: Patient) -> Iterator[Diagnosis]:
    layers = {name: module.p for name, module in patient.model.named_modules() if isinstance(module, _DropoutNd)}
    own = {name: module.dropout for name, module in patient.model.named_modules()
           if isinstance(getattr(module, "dropout", None), float)}  # fmt: skip
    found = {**layers, **own} or _called(patient)
    if not found:
        raise Skip("there is no dropout")
    where = max(found, key=lambda name: found[name])
    patient.note(largest=found[where])
    if found[where] < STRONG:
        return
    compared = compare(patient, NO_DROPOUT if layers or own else Change("without dropout", on_model=_undropped))
    weak = patient.baseline is not None and patient.reference.last > 0.5 * patient.baseline
    if compared.gains and (weak or found[where] >= EXTREME or is_stuck(patient, patient.reference)):
        yield Diagnosis(
            cause="dropout too strong",
            evidence={"probability": found[where], **compared.evidence()},
            advice="drop half of the units at most",
            where=where,
            confirmed_by="a copy without dropout gains, for two seeds",
            margin=found[where] / STRONG,
        )


def _called(patient: Patient) -> dict[str, float]:
    """The probabilities with which functions drop units in training mode, where no layer does."""
    with Operations(DROPOUTS) as used, torch.no_grad():
        patient.outputs(patient.twin(), patient.batch(8))
    found: dict[str, float] = {}
    for name, args, kwargs in used.seen:
        probability = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
        if kwargs.get("training", args[2] if len(args) > 2 else True):
            found[name] = max(found.get(name, 0.0), float(probability))
    return found


def _undropped(model: nn.Module) -> None:
    """Have the model's forward pass drop nothing."""
    forward = model.forward

    def whole(*args: Any, **kwargs: Any) -> Any:
        with Kept():
            return forward(*args, **kwargs)

    model.forward = whole


class Kept(TorchFunctionMode):
    """Functions that drop units give them all."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        dropped = getattr(func, "__name__", "") in DROPOUTS
        return args[0] if dropped else func(*args, **(kwargs or {}))
