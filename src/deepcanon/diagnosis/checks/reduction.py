"""Reduction of the loss: it is a mean over the examples.

Measured: the loss of a batch and of the same batch twice over, which a mean leaves as it is and a sum doubles; alarmed
where they differ by more than a quarter. With a sum, the learning rate that suits depends on the size of the batch, and
the last, smaller batch counts less. A sum with a rate that was chosen for it is let alone: where the training learns,
and a copy whose gradients are divided by the size of the batch does no better, for two seeds. Losses that relate the
examples of a batch to each other are not examined.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from deepcanon.core import Batch
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, learns_little
from deepcanon.diagnosis.trial import Change
from deepcanon.train.randomness import seed_all

STAGE, PLACE = "loss", 20

OFF, DRAWS, EXAMPLES = 0.25, 4, 16
BETTER = 0.9
"""A mean does better if at most this share of the loss is left."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(EXAMPLES)
    if patient.whole or not isinstance(batch, Batch) or len(batch) < 2:
        raise Skip("the examples of a batch belong together")
    if patient.without_fit or (patient.ours is not None and patient.ours.relates_examples):
        raise Skip("the loss relates the examples of a batch, or does not measure fit")
    twice = batch.select(torch.arange(len(batch)).repeat(2))
    one, two = _mean(patient, batch), _mean(patient, twice)
    if abs(one) < 1e-6:
        raise Skip("the loss is 0")
    ratio = two / one
    patient.note(ratio=ratio)
    if abs(ratio - 1) > OFF and 1.5 < ratio < 2.7 and not _was_chosen(patient):
        yield Diagnosis(
            cause="wrong reduction",
            evidence={"loss_of_a_batch": one, "of_the_batch_twice": two, "ratio": ratio},
            advice="take the mean over the examples, reduction='mean'",
            where="the loss is summed over the examples, not averaged",
            confirmed_by="the loss of a doubled batch",
            margin=abs(ratio - 1) / OFF,
        )


def _was_chosen(patient: Patient) -> bool:
    """Whether the training learns with the sum, and not better with the mean: then the rate suits the sum."""
    if learns_little(patient):
        return False
    size = int(patient.settings["batch_size"])

    def averaged(optimizer: torch.optim.Optimizer, number: int) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.div_(size)

    found = compare(patient, Change("with the mean over the examples", on_step=averaged))
    return any(after.last > BETTER * before.last for before, after in zip(found.before, found.after, strict=True))


def _mean(patient: Patient, batch: Batch) -> float:
    total = 0.0
    for seed in range(DRAWS):
        model = patient.twin().eval()
        seed_all(seed)
        total += float(patient.loss(model, batch).detach())
    return total / DRAWS
