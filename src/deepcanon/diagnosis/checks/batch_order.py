"""Order of the examples: mini-batches are drawn at random.

Measured, where a loader gives the examples in their order: the entropy of the labels within batches against that of
random batches; of real targets the rank correlation with the position. Alarmed below half of the expected entropy, or
at a correlation above 0.95. A batch of one class pulls the weights to that class, and the next one away from it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rows import labels_of

STAGE, PLACE = "data", 70

SHARE, SORTED, SMALLEST = 0.5, 0.95, 4


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.shuffled:
        raise Skip("the examples are shuffled in every epoch")
    y = labels_of(patient.train_split, most=10**9)
    size = int(patient.settings["batch_size"])
    if len(y) < 4 * size or size < SMALLEST:
        raise Skip("there are too few batches, or they are too small")
    if patient.task == "targets":
        position = torch.arange(len(y)).double()
        correlation = float(torch.corrcoef(torch.stack([position, y.argsort().argsort().double()]))[0, 1])
        patient.note(correlation_with_position=correlation)
        ill, evidence = abs(correlation) > SORTED, {"correlation_with_position": correlation}
    else:
        y = torch.unique(y, return_inverse=True)[1]
        if int(y.max()) == 0:
            raise Skip("there is one class")
        drawn = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
        within, expected = _entropy(y, size), _entropy(y[drawn], size)
        patient.note(entropy_within_batches=within / max(expected, 1e-9))
        ill = within < SHARE * expected
        evidence = {"entropy_within_batches": within, "of_random_batches": expected}
    if ill:
        yield Diagnosis(
            cause="sorted examples",
            evidence=evidence,
            advice="draw the examples in random order, DataLoader(..., shuffle=True)",
            where="batches are drawn in the order of the labels, not shuffled",
            confirmed_by="the labels in the order of the batches",
        )


def _entropy(y: Tensor, size: int) -> float:
    """The mean entropy of the labels within batches, in nats."""
    whole = y[: len(y) // size * size].view(-1, size)
    shares = torch.nn.functional.one_hot(whole).double().mean(1)
    return float(-(shares * shares.clamp_min(1e-12).log()).sum(1).mean())
