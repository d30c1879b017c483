"""Reach of the loss: every parameter that is trained has an effect on the loss, and what has one is a parameter.

Measured: the leaves of the loss's graph over three batches against the parameters of the model; exact. A parameter that
no loss reaches is detached, or its layer is never called. A leaf outside of the parameters belongs to layers in a
Python list or dictionary, which ``parameters()`` does not find, or that are made anew in every call. A tensor that is
made anew in every call, and is no ``nn.Parameter``, is none: inputs whose gradient the loss itself needs, as that of a
gradient penalty. Parameters that are frozen on purpose
(``requires_grad=False``) are fine as long as something learns. Turns with a gradient by hand, and those without a
gradient, are not examined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Descend, Model
from deepcanon.diagnosis.anatomy import names_of, reached, recorded
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import ROUNDS, Patient, Skip
from deepcanon.diagnosis.watching import sent_backward
from deepcanon.train.process import frozen

STAGE, PLACE = "wiring", 20

BATCHES = 3


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.by_turns:
        assert patient.ours is not None
        yield from _of_turns(patient)
        return
    model, optimizer = patient.twins()
    trained = {id(p): p for p in model.parameters() if p.requires_grad}
    if not trained:
        yield _nothing_trained()
        return
    leaves = Leaves()
    called: set[nn.Module] = set()
    with recorded(model) as calls:
        if patient.step is None:
            for seed in range(BATCHES):
                leaves.add(patient.loss(model, patient.batch(8, seed)))
        else:
            _of_steps(patient, model, optimizer, leaves)
    called = {call.module for call in calls}
    if not leaves.graph:
        yield Diagnosis(
            cause="detached graph",
            evidence={"parameters": len(trained)},
            advice="leave out detach(), .data, .item(), numpy() and no_grad() between the parameters and the loss",
            confirmed_by="exact: the graph of the loss",
        )
        return
    yield from _foreign(patient, model, optimizer, leaves)
    yield from _unreached(model, trained, leaves.found, called)
    patient.note(parameters=len(trained), reached=sum(key in leaves.found for key in trained))


def _of_steps(patient: Patient, model: nn.Module, optimizer: torch.optim.Optimizer, leaves: Leaves) -> None:
    """What all losses that a user's own step sends backward depend on; some of them are sent at every fifth step."""
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    for number, batch in zip(range(1, ROUNDS + 1), patient.batches(), strict=False):
        sent_backward(partial(patient.call_step, model, optimizer, batch, number), leaves.add)
        if number >= BATCHES and trained <= leaves.found.keys():
            return


class Leaves:
    """The leaves that the losses of several batches depend on, and how often each was met."""

    def __init__(self) -> None:
        self.found: dict[int, Tensor] = {}  # kept alive, so that no two have the same id
        self.times: Counter[int] = Counter()
        self.graph = False
        """Whether any of the losses has a graph."""

    def add(self, loss: Tensor) -> None:
        self.graph = self.graph or loss.requires_grad
        for leaf in reached(loss):
            self.found[id(leaf)] = leaf
            self.times[id(leaf)] += 1

    def outside(self, own: set[int]) -> list[Tensor]:
        """What is learned outside of these parameters: not what one call makes for itself."""
        return [
            leaf
            for key, leaf in self.found.items()
            if key not in own and (self.times[key] > 1 or isinstance(leaf, nn.Parameter))
        ]


def _foreign(
    patient: Patient, model: nn.Module, optimizer: torch.optim.Optimizer, leaves: Leaves
) -> Iterator[Diagnosis]:
    """Leaves outside of the parameters of the model, of the loss and of the optimizer."""
    own = {id(p) for p in model.parameters()}
    if isinstance(patient.criterion, nn.Module):
        own |= {id(p) for p in patient.criterion.parameters()}
    own |= {id(p) for group in optimizer.param_groups for p in group["params"]}
    own |= {id(p) for p in patient.originals}  # of a lambda in the model, which no copy can follow
    foreign = leaves.outside(own)
    if foreign:
        yield Diagnosis(
            cause="unregistered parameters",
            evidence={"tensors": len(foreign), "numbers": sum(leaf.numel() for leaf in foreign)},
            advice="keep layers in nn.ModuleList, nn.ModuleDict or nn.Sequential, and weights in nn.Parameter",
            where=_home(model, foreign[0]) or f"a tensor of shape {tuple(foreign[0].shape)}",
            confirmed_by="exact: the loss depends on tensors that are not in parameters()",
        )


def _home(model: nn.Module, leaf: Tensor) -> str:
    """Where in the attributes of a model a tensor stands that is not registered."""

    def inside(value: Any, depth: int) -> bool:
        if value is leaf:
            return True
        if isinstance(value, nn.Module):
            return any(p is leaf for p in value.parameters())
        if depth and isinstance(value, list | tuple):
            return any(inside(each, depth - 1) for each in value)
        return depth > 0 and isinstance(value, dict) and any(inside(each, depth - 1) for each in value.values())

    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if not key.startswith("_") and inside(value, 3):
                return f"{name}.{key}".lstrip(".")
    return ""


def _unreached(
    model: nn.Module, trained: dict[int, nn.Parameter], found: dict[int, Tensor], called: set[nn.Module]
) -> Iterator[Diagnosis]:
    names = names_of(model)
    missing = [key for key in trained if key not in found]
    if not missing:
        return
    owner = {id(p): module for module in model.modules() for p in module.parameters(recurse=False)}
    detached = [key for key in missing if owner[key] in called]
    shown = [names[key] for key in (detached or missing)]
    yield Diagnosis(
        cause="detached graph" if detached else "unused parameters",
        evidence={"without_gradient": ", ".join(shown[:6]), "of": len(trained)},
        advice="leave out detach(), .data or no_grad() after these layers"
        if detached
        else "call these layers in forward, or leave them out",
        where=shown[0],
        confirmed_by=f"exact: the graph of the loss, over {BATCHES} batches",
    )


def _of_turns(patient: Patient) -> Iterator[Diagnosis]:
    model = patient.twin()
    assert isinstance(model, Model)
    with frozen(model, patient.settings["freeze"]):
        turns = [turn for turn in model.turns() if isinstance(turn, Descend)]
        if not turns:
            raise Skip("nothing is trained by gradients")
        if not any(p.requires_grad for turn in turns for p in turn.parameters):
            yield _nothing_trained()
            return
        plain = [turn for turn in turns if turn.gradient is None]
        if not plain:
            raise Skip("gradients are written by hand")
        names, registered = names_of(model), {id(p) for p in model.parameters()}
        for turn in plain:
            if turn.start is not None:
                continue
            leaves = _reached_by(patient, turn)
            wanted = {id(p) for p in turn.parameters if p.requires_grad}
            lost = [names.get(key, "a parameter") for key in wanted - set(leaves.found)]
            foreign = leaves.outside(registered)
            patient.note(parameters=len(wanted), reached=len(wanted) - len(lost))
            if lost or foreign:
                yield Diagnosis(
                    cause="detached graph" if lost
                    else "unregistered parameters",
                    evidence={"without_gradient": ", ".join(lost[:6])} if lost else {"tensors": len(foreign)},
                    advice="leave out detach(), .data or no_grad() after these layers" if lost
                    else "keep layers in nn.ModuleList, nn.ModuleDict or nn.Sequential, and weights in nn.Parameter",
                    where=f"turn {turn.name}",
                    confirmed_by="exact: the graph of the loss",
                )  # fmt: skip
                return


def _reached_by(patient: Patient, turn: Descend[Any]) -> Leaves:
    leaves = Leaves()
    for seed in range(BATCHES):
        batch: AnyBatch = patient.batch(8, seed)
        terms = turn.loss(batch)
        leaves.add(sum(terms.values(), start=torch.zeros(())))
    return leaves


def _nothing_trained() -> Diagnosis:
    return Diagnosis(
        cause="frozen parameters",
        evidence={"trained": 0},
        advice="set requires_grad=True for what is to learn",
        confirmed_by="exact: no parameter requires a gradient",
    )
