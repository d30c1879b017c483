"""Effect of penalties: a heavier penalty raises the loss.

Measured, of models that take a penalty (``l1``, ``l2``, ``penalty``): the loss on a batch with the penalty's weight a
hundred times as large, the weights of the model as they are; exact. A loss that falls has a penalty with the wrong
sign; one that stays as it is, while weights are not 0, has none. Li, Karpathy and Johnson, CS231n,
https://cs231n.github.io/neural-networks-3/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.train.randomness import seed_all

STAGE, PLACE = "loss", 50

PENALTIES, HEAVIER, ROUNDING = ("l1", "l2", "penalty"), 100.0, 1e-6


def check(patient: Patient) -> Iterator[Diagnosis]:
    model = patient.ours
    given = {} if model is None else {name: model.hparams.get(name) for name in PENALTIES}
    weighed = {name: value for name, value in given.items() if _weight(value) > 0}
    if model is None or not weighed:
        raise Skip("there is no penalty with a weight")
    batch = patient.batch()
    for name, value in weighed.items():
        other = type(model)(**{**model.hparams, name: _times(value)})
        other.load_state_dict(model.state_dict())
        losses = []
        for each in (patient.twin(), other.train()):
            seed_all(0)
            with torch.no_grad():
                losses.append(float(patient.loss(each, batch)))
        change = losses[1] - losses[0]
        patient.note(**{f"{name}_raises_by": change})
        if change < -ROUNDING * abs(losses[0]):
            yield Diagnosis(
                cause="penalty with the wrong sign",
                evidence={"loss": losses[0], "with_a_heavier_penalty": losses[1]},
                advice="add the penalty to the loss, do not subtract it",
                where=name,
                confirmed_by="exact: the loss with a hundred times the weight",
            )


def _weight(value: Any) -> float:
    numbers = value if isinstance(value, tuple | list) else (value,)
    return max((float(each) for each in numbers if isinstance(each, int | float)), default=0.0)


def _times(value: Any) -> Any:
    return tuple(HEAVIER * each for each in value) if isinstance(value, tuple | list) else HEAVIER * value
