"""Pretrained weights: what is frozen or adapted keeps every bit in a training.

Measured exactly over a few steps of the training itself: weights that ``updates`` adds to, and, of a method for
pretrained models, the parameters that it freezes when it is built and the buffers of its frozen parts (running averages
drift in training mode). A model without any of these is not examined. No threshold.

Papers: Hu et al., 2021, https://arxiv.org/abs/2106.09685; Houlsby et al., 2019, https://arxiv.org/abs/1902.00751
"""

from __future__ import annotations

from collections.abc import Iterator

from deepcanon.diagnosis.families.after_training import ours
from deepcanon.diagnosis.families.kept_weights import declared_base, moved
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "wiring", 92
STEPS = 5


def check(patient: Patient) -> Iterator[Diagnosis]:
    base = declared_base(ours(patient))
    if not base:
        raise Skip("nothing of it is to stay as it is")
    gone = moved(base, patient.train(STEPS).model)
    patient.note(kept=len(base) - len(gone), moved=len(gone))
    if gone:
        worst = max(gone, key=lambda name: gone[name])
        yield Diagnosis(
            cause="base drift",
            evidence={"moved": len(gone), "of": len(base), "largest_relative_change": gone[worst]},
            advice="leave the pretrained weights out of the turns, and frozen parts in eval mode",
            where=worst,
            confirmed_by=f"exact: it has other bits after {STEPS} steps",
        )
