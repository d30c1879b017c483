"""The layers of a network as they answer to places in the plane: a map for each unit, and the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.studio.play.looks import Scene
from deepcanon.studio.play.window import as_bytes, rounded

CELLS = 30
"""The side of a unit's map, in cells."""
MOST_LAYERS, MOST_UNITS = 6, 12
"""How many layers are shown, and how many units of each; the page says how many there are."""


@dataclass
class Layer:
    """A layer that was called: its name in the model, its module, and its units after activation, (cells², units)."""

    name: str
    module: nn.Module
    units: Tensor


def answer_of(scene: Scene) -> Callable[[Tensor], Any] | None:
    """The function of places whose network is shown: what the model says of a point."""
    model = scene.bound()
    if scene.has("predict"):
        return lambda x: model.predict(x, how="mean")
    for method in ("discriminate", "energy", "score", "to_latent", "log_prob", "reconstruct"):
        if scene.has(method):
            return getattr(model, method)  # type: ignore[no-any-return]
    return None


def layers(scene: Scene) -> list[Layer]:
    """The layers with a matrix of weights that a call goes through, in their order, each with its activation."""
    answer = answer_of(scene)
    if answer is None:
        return []
    grid = scene.window.grid(CELLS)
    found: list[Layer] = []
    with _recording(scene.model, found, len(grid)):
        answer(grid)
    return found


@contextmanager
def _recording(model: nn.Module, found: list[Layer], rows: int) -> Iterator[None]:
    names = {id(module): name for name, module in model.named_modules()}
    seen: set[int] = set()

    def record(module: nn.Module, inputs: Any, output: Any) -> None:
        if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != rows:
            return
        if _is_matrix(module):
            if id(module) not in seen and len(found) < MOST_LAYERS:
                found.append(Layer(names[id(module)], module, output.detach()))
            seen.add(id(module))
        elif found and _activates(module, inputs[0], found[-1]) and output.shape == found[-1].units.shape:
            found[-1].units = output.detach()

    hooks = [module.register_forward_hook(record) for module in model.modules() if not list(module.children())]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _activates(module: nn.Module, given: Any, layer: Layer) -> bool:
    """Whether a module without parameters was given the units of the layer before it."""
    plain = next(module.parameters(), None) is None and isinstance(given, Tensor)
    return plain and torch.equal(given.detach(), layer.units)


def _is_matrix(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, nn.Parameter) and weight.ndim == 2


def network(scene: Scene) -> list[dict[str, Any]]:
    """The layers as the page draws them: maps of the first units, with their weights and biases."""
    return [_facts(layer) for layer in layers(scene)]


def _facts(layer: Layer) -> dict[str, Any]:
    units = layer.units[:, :MOST_UNITS].double()
    size = units.abs().amax(0).clamp_min(1e-9)
    weight = layer.module.weight
    assert isinstance(weight, Tensor)
    bias = getattr(layer.module, "bias", None)
    prefix = f"{layer.name}." if layer.name else ""
    return {
        "name": layer.name,
        "cells": CELLS,
        "units": layer.units.shape[1],
        "maps": [as_bytes(0.5 + 0.5 * units[:, i] / size[i]) for i in range(units.shape[1])],
        "size": rounded(size),
        "weight": f"{prefix}weight",
        "inputs": weight.shape[1],
        "weights": rounded(weight[:MOST_UNITS, :MOST_UNITS]),
        "bias": f"{prefix}bias" if isinstance(bias, nn.Parameter) else None,
        "biases": rounded(bias[:MOST_UNITS]) if isinstance(bias, nn.Parameter) else [],
    }
