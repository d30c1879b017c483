"""Weight decay: it holds weights small, not at nothing.

Measured: the weight decay of the optimizer, and the norm of the weights after a trial by that before. Suspected where
the decay is at least 0.01 and the training leaves more than half of the constant answer's loss or its weights shrink
below a third; named only if a copy without weight decay gains, for two seeds. Where decay outweighs the gradient all
weights go to 0, and the answer is a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from deepcanon.core.options import parse
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, helps, learns_little
from deepcanon.diagnosis.repairs import NO_DECAY

STAGE, PLACE = "optimizer", 10

LEAST, SHRUNK = 0.01, 0.33


def check(patient: Patient) -> Iterator[Diagnosis]:
    decay = decay_of(patient)
    if decay < LEAST:
        raise Skip("there is little weight decay, or none")
    shrinking = _norm(patient.reference.model) / max(_norm(patient.model), 1e-12)
    patient.note(decay=decay, weights_after_by_before=shrinking)
    if shrinking > SHRUNK and not learns_little(patient):
        return
    found = compare(patient, NO_DECAY)
    if helps(patient, found):
        yield Diagnosis(
            cause="weight decay too strong",
            evidence={"weight_decay": decay, "weights_after_by_before": shrinking, **found.evidence()},
            advice="take a weight decay of 0.1 or less (AdamW), 1e-4 or so (SGD, Adam)",
            where="optimizer",
            confirmed_by="a copy without weight decay gains, for two seeds",
        )


def decay_of(patient: Patient) -> float:
    """The weight decay of the optimizer."""
    if patient.optimizer is not None:
        return max(float(group.get("weight_decay", 0.0)) for group in patient.optimizer.param_groups)
    options: dict[str, Any] = parse(str(patient.settings["optimizer"]))[1]
    return float(options.get("weight_decay", 0.0))


def _norm(model: nn.Module) -> float:
    weights = [p.detach() for p in model.parameters() if p.requires_grad and p.is_floating_point()]
    return float(nn.utils.get_total_norm(weights)) if weights else float(torch.zeros(()))
