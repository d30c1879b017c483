"""Causality: the prediction of a value depends on no value that comes at its place or later.

Measured exactly, with noise on the parameters so that zero starts hide nothing: later positions of a sequence are
changed, and outputs up to there must stay as they are, but for rounding; of an autoregressive model of tables the
logits of a value must not change with it, nor with those that are drawn later. It holds where a model says that it is
``causal``, has ``logits`` in a ``drawing_order``, or, of a plain module, where the labels are the inputs one position
later, or the loss pulls each output to the next token. Where it pulls each output to the token at its own position, and
outputs are causal, each token is to be predicted from itself. What it pulls to is read off its gradient by the outputs.
No threshold.

Papers: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762; Germain et al., 2015, https://arxiv.org/abs/1502.03509
"""

from __future__ import annotations

from collections.abc import Iterator

from deepcanon.diagnosis.families.order_of_values import (
    Leak,
    leak_of_sequence,
    leak_of_table,
    predicted_token,
    predicts_in_order,
    predicts_next_token,
)
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "wiring", 90


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(4)
    if predicts_in_order(patient.model):
        leak, tried = leak_of_table(patient.model, batch)
        patient.note(positions=tried)
        if leak is not None:
            yield _diagnosis(leak, "mask the connections of each value to itself and to those that are drawn later")
        return
    wanted = predicted_token(patient)
    in_order = predicts_next_token(patient.model, batch)
    if not in_order and not wanted:
        raise Skip("nothing says that its predictions are in an order")
    found = leak_of_sequence(patient.model, batch)
    if found is None:
        raise Skip("it has no output for each position")
    leak, tried = found
    patient.note(positions=tried)
    if leak is not None and (in_order or wanted == "next"):
        yield _diagnosis(leak, "mask what comes after a position, in attention as in convolutions")
    elif leak is None and wanted == "same":  # what reads on both sides may fill in, or denoise
        yield Diagnosis(
            cause="causality leak",
            evidence={"positions": tried},
            advice="shift the labels by one position: the label of a token is the next token, not itself",
            where="labels",
            confirmed_by="exact: the loss wants of each output the token that it has read last",
        )


def _diagnosis(leak: Leak, advice: str) -> Diagnosis:
    return Diagnosis(
        cause="causality leak",
        evidence={"position": leak.at, "knows_position": leak.source, "change": leak.change},
        advice=advice,
        where=f"position {leak.at} knows position {leak.source}",
        confirmed_by="exact: another value there changes the output",
    )
