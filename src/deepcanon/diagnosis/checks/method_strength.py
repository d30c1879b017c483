"""Strength of a method: what is wrapped around a model (a penalty, noise) lets it learn.

Measured, of methods that wrap a model and say with which settings they do nothing (``null``): the loss of the wrapped
model on training examples in evaluation mode, without the method's penalties and noise, after a trial with the method
and after one of the model alone. Named only if with the method it ends within 2 % of the best constant answer and alone
it leaves that behind by 10 %, for two seeds. A penalty that outweighs the fit holds the weights at nothing, and noise
that outweighs the inputs or targets leaves nothing to learn from. Bishop, Training with noise is equivalent to Tikhonov
regularization, 1995, https://doi.org/10.1162/neco.1995.7.1.108.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from deepcanon.core import Model
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating
from deepcanon.diagnosis.repair import FAR, STUCK
from deepcanon.diagnosis.trial import Course

STAGE, PLACE = "family", 95  # after what a family says of its own methods

EXAMPLES = 512
PENALTIES = ("l1", "l2", "penalty")


def check(patient: Patient) -> Iterator[Diagnosis]:
    model = patient.ours
    inner = getattr(model, "model", None)
    null = getattr(type(model), "null", None)
    if model is None or null is None or not isinstance(inner, Model) or not patient.by_turns:
        raise Skip("it is not a method around a model")
    if patient.without_fit:
        raise Skip("the method has a loss of its own, and does not train that of the model")
    if patient.in_stages:
        raise Skip("it is trained in turns one after the other, of which a trial may see the first only")
    alone = replace(patient, model=inner)
    if alone.baseline is None or alone.baseline <= 0:
        raise Skip("the loss of a constant answer is not known")
    with_method, without = _left(alone, patient.reference), 0.0
    patient.note(left_with_the_method=with_method)
    if with_method < 1 - STUCK:
        return
    for seed in range(2):
        course = patient.second_reference if seed else patient.reference
        without = _left(alone, alone.train(patient.reference.asked, seed=seed))
        if _left(alone, course) < 1 - STUCK or without > 1 - FAR:
            return
    set_ = {name: model.hparams.get(name) for name, off in null.items() if model.hparams.get(name) != off}
    penalty = any(name in PENALTIES for name in set_)
    yield Diagnosis(
        cause="weight decay too strong" if penalty else "noise too strong",
        evidence={"loss_by_constant_answer": with_method, "of_the_model_alone": without},
        advice=f"lower {' and '.join(set_) or 'its strength'} a hundredfold",
        where=model.name(),
        confirmed_by="the model alone learns, for two seeds",
    )


def _left(alone: Patient, course: Course) -> float:
    """What a trained copy leaves of the constant answer's loss, without the method."""
    assert alone.baseline is not None
    model = getattr(course.model, "model", course.model) if course.finite else None
    if model is None or not isinstance(model, Model):
        return float("inf")
    with evaluating(model), torch.no_grad():
        return float(alone.loss(model, alone.batch(EXAMPLES))) / alone.baseline
