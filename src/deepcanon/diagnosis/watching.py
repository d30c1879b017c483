"""Watching a training step from outside: which loss goes backward, and what reaches the optimizer.

A user's own step is a function that may do anything. What it does is seen where it must pass: at
``torch.autograd.backward`` and at the optimizer's ``step``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


class Captured(Exception):
    """The loss that a step was about to send backward."""

    def __init__(self, loss: Tensor) -> None:
        super().__init__("the loss of a step")
        self.loss = loss


@dataclass
class Watched:
    """A record of one or more steps, as they were seen from outside."""

    losses: list[float] = field(default_factory=list)
    """The value of every loss that went backward since the last step of the optimizer, summed at each of its steps."""
    backwards: int = 0
    steps: int = 0
    """How often the optimizer took a step."""
    stale: list[bool] = field(default_factory=list)
    """For each step of the optimizer but the first, whether no backward since the last step began without gradients."""
    raw_norms: list[float] = field(default_factory=list)
    """The norm of the gradients when backward ended."""
    rates: list[float] = field(default_factory=list)
    """The learning rate of each step of the optimizer."""
    step_norms: list[float] = field(default_factory=list)
    """The norm of the gradients that the optimizer stepped on."""


@contextmanager
def backward_replaced(by: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """``torch.autograd.backward`` is another function meanwhile; the tensors' method calls it, too."""
    original = torch.autograd.backward
    torch.autograd.backward = by
    try:
        yield original
    finally:
        torch.autograd.backward = original


def captured_loss(call: Callable[[], Any]) -> Tensor | None:
    """The loss that a call sends backward first, with its graph; None if it sends none."""

    def stop(tensors: Any, *others: Any, **more: Any) -> None:
        raise Captured(tensors if isinstance(tensors, Tensor) else next(iter(tensors)))

    with backward_replaced(stop):
        try:
            call()
        except Captured as found:
            return found.loss
    return None


def sent_backward(call: Callable[[], Any], look: Callable[[Tensor], Any]) -> None:
    """Make a call as it is, and look at every loss that it sends backward, with its graph."""
    original = torch.autograd.backward

    def backward(tensors: Any, *others: Any, **more: Any) -> None:
        for root in [tensors] if isinstance(tensors, Tensor) else tensors:
            look(root)
        original(tensors, *others, **more)

    with backward_replaced(backward):
        call()


@contextmanager
def watched(optimizer: torch.optim.Optimizer, norms: bool = False) -> Iterator[Watched]:
    """What a step does with this optimizer, while it runs as it is; ``norms`` asks for those of gradients, too."""
    seen = Watched()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    total = 0.0
    clean = False
    original = torch.autograd.backward

    def backward(tensors: Any, *others: Any, **more: Any) -> None:
        nonlocal total, clean
        clean = clean or is_clear(parameters)
        seen.backwards += 1
        for root in [tensors] if isinstance(tensors, Tensor) else tensors:
            if root.numel() == 1:
                total += float(root.detach())
        original(tensors, *others, **more)
        if norms:
            seen.raw_norms.append(gradient_norm(parameters))

    def before(_: Any, args: Any, kwargs: Any) -> None:
        nonlocal total, clean
        if norms:
            seen.step_norms.append(gradient_norm(parameters))
        if seen.steps:
            seen.stale.append(not clean)
        seen.steps += 1
        seen.rates.append(float(optimizer.param_groups[0].get("lr", math.nan)))
        seen.losses.append(total)
        total, clean = 0.0, False

    hook = optimizer.register_step_pre_hook(before)
    try:
        with backward_replaced(backward):
            yield seen
    finally:
        hook.remove()


def is_clear(parameters: Sequence[Tensor]) -> bool:
    """Whether no parameter has a gradient, or all of them are zero."""
    return not any(p.grad is not None and bool((p.grad != 0).any()) for p in parameters)


def gradient_norm(parameters: Sequence[Tensor]) -> float:
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return 0.0
    dense = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    norm = float(nn.utils.get_total_norm(dense))
    return norm if math.isfinite(norm) else math.inf
