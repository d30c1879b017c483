"""Cases of the doctor's suites: small trainings that are healthy, or broken in one way, and the cause to be named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset

import deepcanon as dc

Area = Literal["recipe", "data", "code", "family"]
Batch = tuple[Tensor, ...]
Step = Callable[[nn.Module, Optimizer, Any], Tensor]


@dataclass
class Patient:
    """What the doctor is given, and how it is seen afterwards that a training has failed.

    ``score`` says how good the trained model is on ``fresh``, what a user would meet after the training: the larger,
    the better; ``chance`` is the score of a model that has learned nothing, by default that of the untrained one.
    """

    model: Any
    data: Any
    score: Callable[[Patient], float]
    chance: float | None = None
    fresh: Any = None
    loss: Callable[..., Tensor] | None = None
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None
    step: Step | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    steps: int = 300
    """How many steps the harm of a fault is measured after."""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``doctor``; a new optimizer at each call."""
        given: dict[str, Any] = dict(self.settings)
        if self.loss is not None:
            given["loss"] = self.loss
        if self.optimizer is not None:
            given["optimizer"] = self.optimizer(self.model.parameters())
        if self.step is not None:
            given["step"] = self.step
        return given


Setting = Callable[[], Patient]
Break = Callable[[Patient], None]


@dataclass(frozen=True)
class Case:
    """A case of a suite; a healthy one has no causes, of which a faulty one has those that are right, best first."""

    name: str
    setting: Setting
    area: Area
    causes: tuple[str, ...] = ()
    breaks: Break | None = None
    plain: bool = False

    def patient(self, seed: int = 0) -> Patient:
        """The patient: the healthy setting of this seed, broken where the case is a fault."""
        torch.manual_seed(seed)
        made = self.setting()
        if self.breaks is not None:
            self.breaks(made)
        return made

    def twin(self, seed: int = 0) -> Patient:
        """The same setting without the fault."""
        torch.manual_seed(seed)
        return self.setting()


FAULTS: list[Case] = []
"""All planted faults; each registers itself."""

HEALTHY: list[Case] = []
"""All healthy cases."""


def is_named(cause: str, causes: Iterable[str]) -> bool:
    """Whether a cause, or a part of it ("bad initialization, exploding gradients"), is among those that are right."""
    return not {cause, *cause.split(", ")}.isdisjoint(causes)


def fault(setting: Setting, *causes: str, area: Area, plain: bool = False) -> Callable[[Break], Break]:
    """Register a function that breaks a healthy patient in one way, with the causes that a doctor may name."""

    def register(breaks: Break) -> Break:
        name = f"{breaks.__name__} of {setting.__name__}"
        FAULTS.append(Case(name.replace("_", " "), setting, area, causes, breaks, plain))
        return breaks

    return register


def sound(setting: Setting, *, area: Area = "recipe", plain: bool = False) -> Callable[[Break], Break]:
    """Register a function that makes a healthy patient an unusual one that is still sound."""

    def register(changes: Break) -> Break:
        name = f"{changes.__name__} of {setting.__name__}"
        HEALTHY.append(Case(name.replace("_", " "), setting, area, (), changes, plain))
        return changes

    return register


def plain_step(model: nn.Module, optimizer: Optimizer, loss: Callable[..., Tensor], batch: Batch) -> Tensor:
    """A step of the usual loop."""
    optimizer.zero_grad()
    value = loss(model(batch[0]), batch[-1])
    value.backward()
    optimizer.step()
    return value.detach()


def train(patient: Patient, seed: int = 0) -> None:
    """Train as its user would: by ``fit`` where the model is one of ours, else by the usual loop or by its own step."""
    torch.manual_seed(seed)
    patient.model.train()
    if isinstance(patient.model, dc.Model):
        settings = {"steps": patient.steps, "evaluate": False, **patient.settings}
        dc.fit(patient.model, patient.data, quiet=True, **settings)
        return
    optimizer = patient.arguments()["optimizer"]
    feed = batches(patient)
    for _ in range(patient.steps):
        if patient.step is not None:
            patient.step(patient.model, optimizer, next(feed))
        else:
            assert patient.loss is not None
            plain_step(patient.model, optimizer, patient.loss, next(feed))


def batches(patient: Patient) -> Iterator[Batch]:
    """Batches without end, in the order that the data say."""
    data, size = patient.data, patient.settings.get("batch_size", 64)
    if isinstance(data, dc.data.Dataset):
        data = (data.train.x, data.train.labels) if data.train.labels is not None else (data.train.x,)
    if not isinstance(data, DataLoader):
        tensors = data if isinstance(data, tuple) else (data,)
        set_ = data if isinstance(data, TensorDataset) else TensorDataset(*tensors)
        data = DataLoader(set_, size, shuffle=True, drop_last=True)
    while True:
        yield from data
