"""What a teacher tells its student, and pseudo-labels those that have none: whether it depends on the example at all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Labeled, Model, SemiBatch

FEW = 1e-300


def teacher_of(model: Any) -> nn.Module | None:
    """The teacher of a distillation: a part called ``teacher`` that predicts as the model does."""
    teacher = getattr(model, "teacher", None)
    return teacher if isinstance(teacher, nn.Module) and isinstance(model, Model) else None


@torch.no_grad()
def teaching(model: Any, batch: Labeled) -> dict[str, float]:
    """The information in the teacher's predictions about which example it is, in nats, and its accuracy and the prior's.

    Of predictions p(y | x) the information is the mean divergence from their mean, 0 where all are alike; that of the
    softened ones, at the method's temperature, is what a student can learn from.
    """
    teacher = teacher_of(model)
    assert teacher is not None
    logits = teacher(*batch.inputs)
    temperature = float(getattr(model, "temperature", 1.0))
    hard, soft = (_information((logits.double() / each).softmax(-1)) for each in (1.0, temperature))
    right = float((logits.argmax(-1) == batch.y).double().mean())
    most = float(torch.bincount(batch.y).max() / len(batch.y))
    return {"information": hard, "softened": soft * temperature**2, "accuracy": right, "prior": most}


def _information(shares: Tensor) -> float:
    mean = shares.mean(0)
    return float((shares * ((shares + FEW).log() - (mean + FEW).log())).sum(-1).mean())


@torch.no_grad()
def pseudo_labels(model: Any, batch: SemiBatch) -> dict[str, float]:
    """The classes that are predicted for the unlabeled examples beside those of the labeled ones.

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
