"""Vital signs of a training: what is measured of single steps and of the curve of the loss, without judgment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn

RECTIFIERS = (nn.ReLU, nn.ReLU6)
SQUASHERS = (nn.Sigmoid, nn.Tanh, nn.Hardsigmoid, nn.Hardtanh)
EDGE = 0.99
"""A unit is saturated where its output is so near to the end of its range, as a share of it."""


class Units:
    """The units of activations over several batches: which were ever other than zero, and how often at their ends."""

    def __init__(self) -> None:
        self.alive: dict[str, Tensor] = {}
        self.examples: dict[str, int] = {}
        self.saturated: dict[str, list[float]] = {}

    @torch.no_grad()
    def see(self, name: str, layer: nn.Module, output: Tensor) -> None:
        """Take in the outputs of an activation for a batch, (B, ...); the channels of images and the like are units."""
        if output.ndim < 2 or not output.numel():
            return
        if isinstance(layer, RECTIFIERS):
            others = tuple(i for i in range(output.ndim) if i != (1 if output.ndim in (2, 4, 5) else output.ndim - 1))
            alive = (output > 0).any(dim=others[0]) if output.ndim == 2 else (output > 0).amax(dim=others)
            before = self.alive.get(name)
            self.alive[name] = alive if before is None or before.shape != alive.shape else before | alive
            self.examples[name] = self.examples.get(name, 0) + len(output)
            return
        if isinstance(layer, nn.Sigmoid | nn.Hardsigmoid):
            output = 2 * output - 1
        self.saturated.setdefault(name, []).append(float((output.abs() > EDGE).double().mean()))

    def dead(self, least: int) -> dict[str, float]:
        """The share of units of each rectifier that gave zero for all examples, where it has had so many."""
        return {n: float(1 - a.double().mean()) for n, a in self.alive.items() if self.examples[n] >= least}

    def at_ends(self) -> dict[str, float]:
        """The mean share of saturated outputs of each squashing activation."""
        return {name: fmean(shares) for name, shares in self.saturated.items() if shares}

    def state(self) -> dict[str, Any]:
        return {"alive": dict(self.alive), "examples": dict(self.examples), "saturated": dict(self.saturated)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.alive, self.examples = dict(state["alive"]), dict(state["examples"])
        self.saturated = {name: list(shares) for name, shares in state["saturated"].items()}


def watch_units(model: nn.Module, see: Callable[[str, nn.Module, Tensor], None]) -> list[Any]:
    """Have the outputs of the activations seen from now on; the handles end it."""

    def hook(name: str) -> Callable[..., None]:
        def seen(layer: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                see(name, layer, output.detach())

        return seen

    layers = [(name, part) for name, part in model.named_modules() if isinstance(part, (*RECTIFIERS, *SQUASHERS))]
    return [part.register_forward_hook(hook(name)) for name, part in layers]


def matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that are matrices or more, in their order."""
    return {name: each for name, each in model.named_parameters() if each.ndim > 1 and each.requires_grad}


@torch.no_grad()
def update_ratios(before: Mapping[str, Tensor], model: nn.Module) -> dict[str, float]:
    """The size of the last update of each matrix by that of the matrix; those that are zero are left out."""
    found = {}
    for name, weight in matrices(model).items():
        if name in before:
            size = float(before[name].norm())
            if size > 0:
                found[name] = float((weight - before[name]).norm()) / size
    return found


@torch.no_grad()
def gradient_norms(model: nn.Module) -> dict[str, float]:
    """The norm of the gradient of each matrix that has one."""
    found = {}
    for name, weight in matrices(model).items():
        if weight.grad is not None:
            dense = weight.grad.coalesce().values() if weight.grad.is_sparse else weight.grad
            found[name] = float(dense.norm())
    return found


def first_not_finite(model: nn.Module) -> str:
    """The name of the first parameter or gradient with a value that is not finite; empty if there is none."""
    for name, each in model.named_parameters():
        if not bool(torch.isfinite(each).all()):
            return name
        if each.grad is not None and not each.grad.is_sparse and not bool(torch.isfinite(each.grad).all()):
            return f"the gradient of {name}"
    return ""


def curve(history: Sequence[Mapping[str, Any]]) -> list[float]:
    """The losses of a log, as many as were written and are numbers."""
    losses = (record.get("loss") for record in history if record.get("kind") == "step")
    return [float(loss) for loss in losses if loss is not None and math.isfinite(loss)]


def shape_of(losses: Sequence[float]) -> dict[str, float]:
    """The shape of a curve of losses, smoothed over a tenth of it.

    ``progress`` is by how much the smoothed loss fell, by the size of the first; ``rise`` by how much it ends above its
    lowest, by how much it fell; ``peak`` how far it was ever above the first, by the size of that; ``spikes`` the
    largest single loss in the second half less its median, by the median distance from it.
    """
    if len(losses) < 10:
        return {}
    width = max(1, len(losses) // 10)
    smooth = [fmean(losses[i : i + width]) for i in range(len(losses) - width + 1)]
    first, last, lowest, highest = smooth[0], smooth[-1], min(smooth), max(smooth)
    size = max(abs(first), 1e-12)
    late = list(losses[len(losses) // 2 :])
    middle = median(late)
    usual = max(median(abs(each - middle) for each in late), 1e-6 * size)
    return {
        "progress": (first - last) / size,
        "rise": (last - lowest) / max(first - lowest, 0.02 * size),
        "peak": (highest - first) / size,
        "spikes": (max(late) - middle) / usual,
    }
