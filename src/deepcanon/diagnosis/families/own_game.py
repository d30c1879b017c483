"""A game in a step of the user's own: its two players, told by what one gives and the other judges, and their state."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch
from deepcanon.diagnosis.copies import of_optimizer
from deepcanon.diagnosis.patient import Patient
from deepcanon.diagnosis.watching import sent_backward
from deepcanon.train import randomness

ROUNDS = 16
"""A step is observed so many times at most, until there are samples enough."""
ENOUGH = 512


@dataclass
class Observed:
    """Steps that change no weight: their samples, the numbers that data and samples got, the generator's slope."""

    samples: Tensor
    of_data: Tensor
    of_samples: Tensor
    slope: float
    generator: str
    discriminator: str


def observed(patient: Patient, model: nn.Module) -> Observed | None:
    """Observe steps with a copy of a model at rates of zero; None where nothing judges both data and samples.

    The discriminator is the module that is called with the examples and with what another module has given: the
    generator. Both are the outermost such modules of the model.
    """
    twin, optimizer = _without_rate(patient, model)
    names = {id(module): name for name, module in twin.named_modules() if name}
    found: list[tuple[str, str, Tensor, Tensor, Tensor]] = []
    slopes: list[float] = []
    for number, batch in zip(range(1, ROUNDS + 1), patient.batches(), strict=False):
        calls: list[tuple[str, Any, Any]] = []
        slopes_here: dict[str, float] = {}

        def look(loss: Tensor, into: dict[str, float] = slopes_here) -> None:
            into.update(_slopes(twin, loss, into))

        with _recorded(twin, names, calls), randomness.kept():
            sent_backward(partial(patient.call_step, twin, optimizer, batch, number), look)
        round_ = _players(calls, batch)
        if round_ is not None:
            found.append(round_)
            slopes.append(slopes_here.get(round_[0], 0.0))
        if sum(len(each[2]) for each in found) >= ENOUGH:
            break
    if not found:
        return None
    samples, real, fake = (torch.cat(parts) for parts in list(zip(*(each[2:] for each in found), strict=True)))
    return Observed(samples, real, fake, sum(slopes) / len(slopes), found[0][0], found[0][1])


def _without_rate(patient: Patient, model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A copy of a model, and the optimizer for it with all rates at zero."""
    assert patient.optimizer is not None
    twin = copy.deepcopy(model).train()
    memo: dict[int, Any] = {
        id(old): new for old, new in zip(patient.model.parameters(), twin.parameters(), strict=True)
    }
    optimizer = of_optimizer(patient.optimizer, memo)
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * 0.0
        if "weight_decay" in group:
            group["weight_decay"] = 0.0
    return twin, optimizer


@contextmanager
def _recorded(model: nn.Module, names: dict[int, str], calls: list[tuple[str, Any, Any]]) -> Iterator[None]:
    hooks = [
        module.register_forward_hook(
            lambda module, inputs, output: calls.append((names[id(module)], inputs[0] if inputs else None, output))
        )
        for module in model.modules()
        if id(module) in names
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _players(calls: list[tuple[str, Any, Any]], batch: AnyBatch) -> tuple[str, str, Tensor, Tensor, Tensor] | None:
    """Generator and discriminator by their names, samples, and the numbers for data and samples."""
    x = batch.x
    tensors = [
        (name, given, out) for name, given, out in calls if isinstance(given, Tensor) and isinstance(out, Tensor)
    ]
    judged = [(name, out) for name, given, out in tensors if given.shape == x.shape and torch.equal(given, x)]
    judged = [(name, out) for name, out in judged if out.numel() == len(x)]
    if not judged:
        return None
    judge, of_data = min(judged, key=lambda each: each[0].count("."))
    for name, given, out in tensors:
        if name != judge or given.shape != x.shape or torch.equal(given, x):
            continue
        made = [n for n, _, o in tensors if o.shape == given.shape and n != judge and torch.equal(o, given)]
        if made:
            maker = min(made, key=lambda each: each.count("."))
            return maker, judge, given.detach(), of_data.detach().flatten(), out.detach().flatten()
    return None


def _slopes(model: nn.Module, loss: Tensor, known: dict[str, float]) -> dict[str, float]:
    """The root of the mean square of the gradient of a loss by the parameters of each module that it reaches."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    parts: tuple[Tensor | None, ...] = torch.autograd.grad(
        loss, [p for _, p in named], allow_unused=True, retain_graph=True
    )
    sums: dict[str, tuple[float, int]] = {}
    for (name, parameter), part in zip(named, parts, strict=True):
        if part is not None:
            owners = [name[:place] for place, letter in enumerate(name) if letter == "."]
            for owner in owners:
                total, count = sums.get(owner, (0.0, 0))
                sums[owner] = (total + float(part.double().square().sum()), count + parameter.numel())
    return {owner: (total / count) ** 0.5 for owner, (total, count) in sums.items()}
