"""Parameters of the optimizer: it holds those of the model that is trained.

Measured: the tensors of the optimizer against the parameters of the model; exact. An optimizer made for another model,
or before the parameters were replaced (by ``to``, by a new head), updates what no one uses. Parameters that it leaves
out may be frozen on purpose, and are only noted.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "wiring", 15


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.optimizer is None:
        raise Skip("the trainer makes the optimizers of the model's turns")
    held = {id(p): p for group in patient.optimizer.param_groups for p in group["params"]}
    own = {id(p): name for name, p in patient.model.named_parameters()}
    if isinstance(patient.criterion, nn.Module):
        own |= {id(p): "the loss" for p in patient.criterion.parameters()}
    trained = {id(p): name for name, p in patient.model.named_parameters() if p.requires_grad}
    foreign = [key for key in held if key not in own]
    left_out = [name for key, name in trained.items() if key not in held]
    patient.note(held=len(held), foreign=len(foreign), left_out=len(left_out))
    if trained and held and len(left_out) == len(trained):
        yield Diagnosis(
            cause="parameters not in the optimizer",
            evidence={"held": len(held), "of_the_model": len(held) - len(foreign), "trained": len(trained)},
            advice="make the optimizer after the model is final, from its own parameters()",
            confirmed_by="exact: no parameter of the model is in the optimizer",
        )
    elif left_out:
        yield Diagnosis(
            cause="parameters not in the optimizer",
            evidence={"left_out": ", ".join(left_out[:6]), "number": len(left_out), "trained": len(trained)},
            advice="give it all parameters, or freeze these by requires_grad=False",
            where=left_out[0],
            grade="note",
        )
