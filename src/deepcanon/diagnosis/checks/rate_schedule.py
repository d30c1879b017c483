"""Learning-rate schedule: the rate lasts as long as the training.

Measured: of all learning rates of the training, added up, the share that falls to its first twentieth; of a user's own
step, the rate at the end of a trial by that at its start. Suspected where the first is above 0.9 or the second below
0.01; named only if a copy with the constant rate gains, for two seeds: half of the loss is left, or it falls twice as
far.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import FAR, FURTHER, Compared, compare, helps
from deepcanon.diagnosis.trial import Change
from deepcanon.optim import schedule
from deepcanon.train.plan import Plan

STAGE, PLACE = "optimizer", 20

SHARE, EARLY, FALLEN = 0.9, 0.05, 0.01


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.by_turns:
        if patient.settings["schedule"] == "constant":
            raise Skip("the learning rate is constant")
        share = _early(patient)
        patient.note(early_share=share)
        if share <= SHARE:
            return
        change, evidence = Change("with a constant rate", settings={"schedule": "constant"}), {"early_share": share}
    else:
        rates = [rate for rate in patient.reference.rates if rate == rate]
        if patient.step is None or not rates or rates[0] == rates[-1] or rates[0] == 0:
            raise Skip("the learning rate is constant")
        fallen = rates[-1] / rates[0]
        patient.note(rate_at_end_by_start=fallen)
        if fallen >= FALLEN:
            return
        change = Change("with a constant rate", on_step=_constant(rates[0]))
        evidence = {"rate_at_start": rates[0], "rate_at_end": rates[-1], "steps": len(rates)}
    found = compare(patient, change)
    if helps(patient, found) or _goes_on(patient, found):
        yield Diagnosis(
            cause="schedule ends too early",
            evidence={**evidence, **found.evidence()},
            advice="let the rate fall over the whole training",
            where="learning-rate schedule",
            confirmed_by="a copy with a constant rate gains, for two seeds",
            change=patient.setting(schedule="constant"),
        )


def _goes_on(patient: Patient, found: Compared) -> bool:
    """Whether a loss falls by far with the change, and as it is by half of that at most, for two seeds."""
    still = patient.still.last
    far = FAR * abs(still)
    pairs = list(zip(found.before, found.after, strict=True))
    return len(pairs) == 2 and all(
        still - after.last > max(far, FURTHER * (still - before.last)) for before, after in pairs
    )


def _early(patient: Patient) -> float:
    """The share of all learning rates that falls to the first twentieth of the training."""
    total = Plan(len(patient.train_split), patient.settings).total  # type: ignore[arg-type]
    factor = schedule(str(patient.settings["schedule"]))
    every = max(1, total // 2000)
    rates = [factor(step, total) for step in range(1, total + 1, every)]
    first = sum(rates[: max(1, round(EARLY * len(rates)))])
    return first / max(sum(rates), 1e-300)


def _constant(rate: float):  # type: ignore[no-untyped-def]
    def change(optimizer: torch.optim.Optimizer, _: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate

    return change
