"""Momentum: the memory of past gradients is shorter than the training.

Measured: the momentum (the first beta) of the optimizer. Suspected at 0.98 and above in a training that learns little;
named only if a copy with 0.9 gains, for two seeds. A momentum of 0.999 multiplies the rate by 1,000 in the long run.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, helps, learns_little
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "optimizer", 18

HIGH, USUAL = 0.98, 0.9


def check(patient: Patient) -> Iterator[Diagnosis]:
    optimizer = patient.optimizer
    if optimizer is None:
        momentum = _of_text(str(patient.settings["optimizer"]))
    else:
        momentum = max(_of_group(group) for group in optimizer.param_groups)
    if momentum < HIGH:
        raise Skip("there is no momentum, or a usual one")
    patient.note(momentum=momentum)
    if not learns_little(patient):
        return
    compared = compare(patient, Change(f"with a momentum of {USUAL}", on_optimizer=_lowered))
    if helps(patient, compared):
        yield Diagnosis(
            cause="momentum too high",
            evidence={"momentum": momentum, **compared.evidence()},
            advice=f"take a momentum of {USUAL}",
            where="optimizer",
            confirmed_by=f"a copy with a momentum of {USUAL} gains, for two seeds",
        )


def _of_group(group: dict[str, object]) -> float:
    betas = group.get("betas")
    first = betas[0] if isinstance(betas, tuple | list) else group.get("momentum", 0.0)
    return float(first) if isinstance(first, int | float) else 0.0


def _of_text(text: str) -> float:
    from deepcanon.core.options import parse

    options = parse(text)[1]
    first = options.get("betas", options.get("momentum", 0.0))
    return _of_group({"betas": first} if isinstance(first, tuple | list) else {"momentum": first})


def _lowered(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        if "momentum" in group and group["momentum"] > USUAL:
            group["momentum"] = USUAL
        if "betas" in group and group["betas"][0] > USUAL:
            group["betas"] = (USUAL, *group["betas"][1:])
