"""The teacher of a distillation in a step of the user's own: a network that answers as the model does and is fixed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from deepcanon.core import Labeled
from deepcanon.diagnosis.patient import Patient, evaluating
from deepcanon.train import randomness

STEPS = 3
"""A teacher that follows its student has moved after so many steps."""


def own_teacher(patient: Patient, model: nn.Module, batch: Labeled) -> nn.Module | None:
    """The module that a step calls without gradient, gets one answer for each of the model's from, and never trains.

    It may be a part of the model, or one that the step knows from elsewhere. A layer that the model's own answers pass
    through is none, nor is an average of the model's weights, which moves.
    """
    with torch.no_grad():
        answers = model(*batch.inputs)
    if not isinstance(answers, Tensor) or answers.ndim != 2:
        return None
    calls: list[tuple[nn.Module, Any]] = []
    with _seen(calls), randomness.kept():
        patient.loss(model, batch)
    trained = {id(each) for each in model.parameters() if each.requires_grad}
    found = [
        module
        for module, output in calls
        if isinstance(output, Tensor)
        and not output.requires_grad
        and output.shape == answers.shape
        and any(True for _ in module.parameters())
        and trained.isdisjoint(id(each) for each in module.parameters())
    ]
    if not found:
        return None
    teacher = max(found, key=lambda module: sum(each.numel() for each in module.parameters()))
    with _exchanged(teacher), torch.no_grad():
        own = torch.equal(model(*batch.inputs), answers)
    return teacher if own and _stays(patient, teacher, model) else None


def taught_by(patient: Patient, model: nn.Module, teacher: nn.Module, batch: Labeled) -> dict[str, float]:
    """What a teacher tells, as :func:`~deepcanon.diagnosis.families.taught.teaching` has it of a method of ours.

    ``heard`` is the change of the gradient where the teacher's answers go to other examples, by the size of that of the
    cross-entropy of the labels.
    """
    from deepcanon.diagnosis.families.taught import information_of

    with evaluating(teacher):
        logits = teacher(*batch.inputs)
    weights = [each for each in model.parameters() if each.requires_grad]

    def gradient(loss: Tensor) -> Tensor:
        parts: tuple[Tensor | None, ...] = torch.autograd.grad(loss, weights, allow_unused=True)
        zeros = (torch.zeros_like(each) for each in weights)
        return torch.cat([(z if p is None else p).double().flatten() for p, z in zip(parts, zeros, strict=True)])

    model.train()
    gradients = []
    for exchanged in (False, True):
        randomness.seed_all(0)
        with _exchanged(teacher) if exchanged else _seen([]):
            gradients.append(gradient(patient.loss(model, batch)))
    alone = gradient(nn.functional.cross_entropy(model(*batch.inputs), batch.y))
    return {
        "information": information_of(logits.double().softmax(-1)),
        "accuracy": float((logits.argmax(-1) == batch.y).double().mean()),
        "prior": float(torch.bincount(batch.y).max() / len(batch.y)),
        "heard": float((gradients[0] - gradients[1]).norm() / alone.norm().clamp_min(1e-30)),
    }


@contextmanager
def _seen(calls: list[tuple[nn.Module, Any]]) -> Iterator[None]:
    """Every module that is called, wherever it belongs, with its output."""
    hook = register_module_forward_hook(lambda module, _, output: calls.append((module, output)))
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _exchanged(teacher: nn.Module) -> Iterator[None]:
    """The teacher's answers go to other examples."""
    hook = teacher.register_forward_hook(lambda *call: call[-1].roll(1, 0))
    try:
        yield
    finally:
        hook.remove()


def _stays(patient: Patient, teacher: nn.Module, owner: nn.Module) -> bool:
    """Whether steps leave the teacher as it is; of a part of the model, that of the copy that is trained."""
    name = next((name for name, module in owner.named_modules() if module is teacher), None)
    model, optimizer = patient.twins()
    watched = teacher if name is None else model.get_submodule(name)
    before = [each.detach().clone() for each in watched.parameters()]
    with randomness.kept():
        for number, batch in zip(range(1, STEPS + 1), patient.batches(), strict=False):
            patient.call_step(model, optimizer, batch, number)
    return all(torch.equal(each, old) for each, old in zip(watched.parameters(), before, strict=True))
