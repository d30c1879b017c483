"""Fit of a small batch: a model that learns can learn sixteen examples by heart.

Measured, where a training does not learn and no other check has found why: the loss on sixteen examples after 200 steps
with dropout and weight decay off, for the best of rates around the training's own, by that of the best constant
answer. Alarmed above 0.7 for two draws of the examples: the fault is in the structure (the path from input to loss, or
too narrow a layer), not in the settings; or, where standardized inputs are learned, in their scale. Karpathy, A recipe
for training neural networks, 2019, https://karpathy.github.io/2019/04/25/recipe/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from deepcanon.diagnosis.checks.input_scale import standardized_inputs
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rates import factors_of_healthy_steps
from deepcanon.diagnosis.repair import is_stuck
from deepcanon.diagnosis.repairs import no_decay, no_dropout
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "dynamics", 90

EXAMPLES, STEPS, LEFT = 16, 200, 0.7
RATES = (1.0, 10.0, 0.1, 100.0, 0.01)


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.task == "none" or patient.baseline is None or patient.by_turns or patient.whole:
        raise Skip("there is nothing to learn by heart, or the loss of a constant answer is not known")
    if not is_stuck(patient, patient.reference) or not is_stuck(patient, patient.second_reference):
        return
    shares = [_left(patient, seed) for seed in range(2)]
    patient.note(left=min(shares))
    if min(shares) <= LEFT:
        return
    if patient.train_split.x.is_floating_point():
        scaled = replace(patient, data=replace(patient.data, train=standardized_inputs(patient.train_split)))
        standardized = [_left(scaled, seed) for seed in range(2)]
        patient.note(left_with_standardized_inputs=max(standardized))
        if max(standardized) <= LEFT:
            yield Diagnosis(
                cause="unscaled inputs",
                evidence={"loss_by_constant_answer": min(shares), "with_standardized_inputs": max(standardized)},
                advice="standardize the inputs: subtract the mean of each feature and divide by its deviation",
                where="inputs",
                confirmed_by="sixteen examples are learned by heart with standardized inputs, and not as they are",
            )
            return
    yield Diagnosis(
        cause="cannot fit a small batch",
        evidence={"loss_by_constant_answer": min(shares), "examples": EXAMPLES, "steps": STEPS},
        advice="follow one example from the input to the loss: some step on the way loses what distinguishes it",
        where="structure of the model",
        confirmed_by="five rates around the training's own, two draws of the examples",
        margin=min(shares) / LEFT,
    )


def _left(patient: Patient, seed: int) -> float:
    chosen = patient.batch(EXAMPLES, seed)
    few = replace(patient, data=replace(patient.data, train=replace(chosen, positions=None)))
    if few.baseline is None or few.baseline <= 0:
        return 0.0
    size = {"batch_size": min(EXAMPLES, len(chosen))}
    ends = []
    for rate in (*RATES, *factors_of_healthy_steps(patient, max(RATES))):
        change = Change(f"few x {rate:g}", rate=rate, on_model=_bare, on_optimizer=no_decay, settings=size)
        ends.append(few.train(STEPS, seed=seed, change=change).last / few.baseline)
        if ends[-1] < LEFT:
            break
    return min(ends)


def _bare(model: nn.Module) -> None:
    no_dropout(model)
