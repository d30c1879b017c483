"""Lessons of a teacher for its student, and of pseudo-labels: whether they depend on the example at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Descend, Labeled, Model, SemiBatch, Terms

FEW = 1e-300


def teacher_of(model: Any) -> nn.Module | None:
    """The teacher of a distillation: a part called ``teacher`` that predicts as the model does."""
    teacher = getattr(model, "teacher", None)
    return teacher if isinstance(teacher, nn.Module) and isinstance(model, Model) else None


def teaching(model: Any, batch: Labeled) -> dict[str, float]:
    """What the teacher tells: the information in its predictions, its accuracy, and what the student's gradient hears.

    Of predictions p(y | x) the information is their mean divergence from their mean, in nats, 0 where all are alike.
    ``heard`` is the change of the student's gradient when the teacher's answers are given to other examples, by the
    size of the gradient of the student's own loss of the labels; ``prior`` is the accuracy of the most frequent class.
    """
    teacher = teacher_of(model)
    assert teacher is not None
    with torch.no_grad():
        logits = teacher(*batch.inputs)
    return {
        "information": information_of(logits.double().softmax(-1)),
        "accuracy": float((logits.argmax(-1) == batch.y).double().mean()),
        "prior": float(torch.bincount(batch.y).max() / len(batch.y)),
        "heard": _heard(model, teacher, batch),
    }


def _heard(model: Model[Any], teacher: nn.Module, batch: Labeled) -> float:
    own = {id(each) for each in teacher.parameters()}
    turns = [t for t in model.turns() if isinstance(t, Descend) and own.isdisjoint(id(p) for p in t.parameters)]
    if not turns:
        return 0.0
    parameters, loss = list(turns[-1].parameters), turns[-1].loss
    as_it_is = _gradient(model, parameters, loss, batch)
    student = getattr(model, "model", None)
    alone = _gradient(model, parameters, student.loss, batch) if isinstance(student, Model) else as_it_is
    handle = teacher.register_forward_hook(lambda *call: call[-1].roll(1, 0))
    try:
        mixed_up = _gradient(model, parameters, loss, batch)
    finally:
        handle.remove()
    return float((as_it_is - mixed_up).norm() / alone.norm().clamp_min(1e-30))


def _gradient(
    model: Model[Any], parameters: list[nn.Parameter], loss: Callable[[Any], Terms], batch: Labeled
) -> Tensor:
    """The gradient of a loss in training mode, flat; what is random is drawn alike."""
    model.train()
    torch.manual_seed(0)
    for each in parameters:
        each.requires_grad_(True)
    with torch.enable_grad():
        total = torch.stack(list(loss(batch).values())).sum()
        found = torch.autograd.grad(total, parameters, allow_unused=True)
    model.eval()
    zeros = (torch.zeros_like(each) for each in parameters)
    return torch.cat([(z if g is None else g).double().flatten() for g, z in zip(found, zeros, strict=True)])


def information_of(shares: Tensor) -> float:
    """The mean divergence of predictions, (B, classes), from their mean, in nats."""
    mean = shares.mean(0)
    return float((shares * ((shares + FEW).log() - (mean + FEW).log())).sum(-1).mean())


@torch.no_grad()
def pseudo_labels(model: Any, batch: SemiBatch) -> dict[str, float]:
    """The classes that are predicted for the unlabeled examples next to those of the labeled ones.

    ``drift`` is the divergence of the classes of the labels from those predicted, in nats, with half an example added
    to each; ``fewest`` the share of the rarest predicted class by that of its labels.
    """
    predicted = model.predict(batch.unlabeled)
    classes = int(max(batch.y.max(), predicted.max())) + 1
    true, own = (_shares(labels, classes) for labels in (batch.y, predicted))
    return {"drift": float((true * (true.log() - own.log())).sum()), "fewest": float((own / true).min())}


def _shares(labels: Tensor, classes: int) -> Tensor:
    counts = torch.bincount(labels, minlength=classes).double() + 0.5
    return counts / counts.sum()


def learns_from_few_labels(model: Any, batch: AnyBatch) -> bool:
    """Whether it is trained on few labeled and many unlabeled examples."""
    return isinstance(batch, SemiBatch) and isinstance(model, Model) and callable(getattr(model, "predict", None))
