"""Normalizing flow: the inverse inverts, and the log-determinant is that of the Jacobian, with its sign.

Measured in double precision with noise on the parameters, so that layers that start as the identity hide nothing: the
error of data that come back from their latents, and of ``log_det`` for each value against automatic differentiation of
a few examples. Both are exact up to rounding; no threshold is calibrated. A flow has ``to_latent`` and ``to_data``; a
plain module is one if it gives latents in the shape of the data with a number for each example, and its loss rises with
the square of the latents and falls with that number; where it rises with that number, its sign is wrong in the loss.

Papers: Dinh et al., 2015, https://arxiv.org/abs/1410.8516; Rezende and Mohamed, 2015, https://arxiv.org/abs/1505.05770
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from deepcanon.diagnosis.families.flow_exactness import (
    inverse_error,
    is_flow,
    log_det_error,
    sign_in_loss,
    stirred,
)
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "wiring", 91
TIGHT = 1e-4
"""Rounding in double precision is far below; a forgotten term is far above."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(32)
    if not is_flow(patient.model):
        sign = sign_in_loss(patient, batch)
        if sign == 0:
            raise Skip("it is not a normalizing flow")
        if sign > 0:
            yield Diagnosis(
                cause="wrong log-determinant",
                evidence={"slope_of_the_loss": sign},
                advice="subtract it from the loss: log p(x) is log p(z) plus the log-determinant from x to z",
                where="the sign of the log-determinant in the loss",
                confirmed_by="exact: the loss rises with it",
            )
            return
    model = stirred(copy.deepcopy(patient.model).double().eval())
    batch = batch._map(lambda t: t.double() if t.is_floating_point() else t)
    if is_flow(model):
        error = inverse_error(model, batch)
        patient.note(inverse_error=error)
        if not error < TIGHT:
            yield Diagnosis(
                cause="wrong inverse",
                evidence={"inverse_error": error},
                advice="make to_data undo to_latent step by step, in reverse order",
                where="to_data",
                confirmed_by="exact: data do not come back from their latents",
            )
            return
    errors = log_det_error(model, batch)
    if errors is None:
        return
    off, mirrored = errors
    patient.note(log_det_error=off)
    if not off < TIGHT:
        turned = mirrored < TIGHT
        yield Diagnosis(
            cause="wrong log-determinant",
            evidence={"error_per_value": off, "error_with_the_other_sign": mirrored},
            advice="turn its sign around: it is the log-determinant of the inverse map"
            if turned
            else "add up log |det| of every step of the map from data to latents",
            where="log_det",
            confirmed_by="exact: the Jacobian by automatic differentiation"
            + (", whose logarithm it has with the wrong sign" if turned else ""),
        )
