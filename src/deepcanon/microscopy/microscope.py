"""The microscope for PyTorch models: value, gradient (delta) and verdict on every edge of the compute graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from deepcanon.core import AnyBatch, Model, UsageError
from deepcanon.core.plural import counted
from deepcanon.microscopy.capture import Recorder
from deepcanon.microscopy.compute_graph import TIGHT, Check, ComputeGraph, compute_graph
from deepcanon.microscopy.replay import array_of
from deepcanon.microscopy.tape import Place
from deepcanon.microscopy.verdict import Array


def microscope(
    model: nn.Module, batch: Any, loss: Callable[[Any], Tensor] | None = None, *, seed: int = 0, title: str = ""
) -> ComputeGraph:
    """The compute graph of a model's loss on a small batch: every value of the forward pass and every gradient.

    A :class:`~deepcanon.core.Model` has a loss of its own. Of any other module, ``loss`` takes the output and gives a
    scalar; without it, the output's ``loss`` is taken if it has one, else the sum of all its numbers. ``batch`` is a
    batch, a tensor, a tuple of positional arguments or a mapping of named ones. The microscope works on a copy in
    double precision on the CPU, with random numbers from ``seed``: neither the model nor any generator is changed.

    >>> layer = nn.Linear(2, 1)
    >>> graph = microscope(layer, torch.ones(1, 2))
    >>> [(node.name, node.value.shape) for node in graph.nodes]
    [('x', (1, 2)), ('weight', (1, 2)), ('bias', (1,)), ('linear', (1, 1)), ('sum', ())]
    >>> graph.find("weight").delta
    array([[1., 1.]])
    >>> graph.mismatches
    []
    """
    twin = _copy(model)
    inputs, names = _inputs(batch)
    for kind, found in (("parameter", twin.named_parameters()), ("buffer", twin.named_buffers())):
        names.update({id(tensor): (kind, name) for name, tensor in found})
    recorder = Recorder(twin, names)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        with recorder.watching():
            end = _end(twin, inputs, loss)
        if end.numel() != 1 or not end.is_floating_point():
            raise UsageError(f"the loss must be one real number, got {end.dtype} of shape {tuple(end.shape)}")
        tape, moved = recorder.tape(end)
        if not end.requires_grad:
            raise UsageError("the loss depends on nothing that gets a gradient, so there is no delta to show")
        places = [place for place, tensor in recorder.live.items() if place[0] in moved and tensor.requires_grad]
        gradients = torch.autograd.grad(end, [recorder.live[place] for place in places], allow_unused=True)
    graph = compute_graph(tape, title or type(model).__name__)
    expected = {
        (moved[number], output): array_of(gradient)
        for (number, output), gradient in zip(places, gradients, strict=True)
        if gradient is not None
    }
    graph.checks.append(_against_autograd(graph, expected))
    return graph


def _copy(model: nn.Module) -> Any:
    """The model in double precision on the CPU."""
    try:
        return copy.deepcopy(model).cpu().double()
    except (RuntimeError, TypeError) as error:
        raise UsageError(
            f"the microscope works on a copy in double precision, and {type(model).__name__} cannot be copied: {error}"
        ) from error


def _inputs(batch: Any) -> tuple[Any, dict[int, tuple[str, str]]]:
    """The batch in double precision, its real numbers with a gradient, and what its tensors are called."""
    names: dict[int, tuple[str, str]] = {}

    def prepared(value: Any, name: str) -> Any:
        if isinstance(value, Tensor):
            value = value.detach().cpu()
            if value.is_floating_point() or value.is_complex():
                wide = value.to(torch.complex128 if value.is_complex() else torch.float64)
                value = wide.requires_grad_().clone()  # a copy, so that the model may write to it
            names[id(value)] = ("input", name)
        elif is_dataclass(value) and not isinstance(value, type):
            parts = {part.name: prepared(getattr(value, part.name), part.name) for part in fields(value) if part.init}
            return replace(value, **parts)
        elif isinstance(value, Mapping):
            return {key: prepared(part, str(key)) for key, part in value.items()}
        elif isinstance(value, tuple | list):
            alone = len(value) == 1
            return tuple(prepared(part, name if alone else f"{name}{i + 1}") for i, part in enumerate(value))
        return value

    return prepared(batch, "x"), names


def _end(model: Any, inputs: Any, loss: Callable[[Any], Tensor] | None) -> Tensor:
    """The loss of the model on its inputs."""
    if loss is None and isinstance(model, Model):
        if not isinstance(inputs, AnyBatch):
            raise UsageError(
                f"{model.name()} learns from {model.batch_type().noun}: give a {model.batch_type().__name__}, "
                f"got {type(inputs).__name__}"
            )
        return reduce(add, model.loss(inputs).values())
    if isinstance(inputs, AnyBatch):
        inputs = inputs.inputs
    if isinstance(inputs, Mapping):
        output = model(**inputs)
    else:
        output = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    if loss is not None:
        end = loss(output)
        if not isinstance(end, Tensor):
            raise UsageError(f"the loss must give a tensor with one number, got {type(end).__name__}")
        return end
    if isinstance(getattr(output, "loss", None), Tensor):
        return output.loss  # type: ignore[no-any-return]
    sums = [part.sum() for part in tree_leaves(output) if isinstance(part, Tensor) and part.is_floating_point()]
    if not sums:
        raise UsageError(
            f"{type(model).__name__} gives {type(output).__name__}, in which there is no real tensor; "
            "say by loss= what to differentiate"
        )
    return reduce(add, sums)


def _against_autograd(graph: ComputeGraph, expected: Mapping[Place, Array]) -> Check:
    """Compare every node's delta, the sum over the edges that leave it, with the gradient of torch.autograd."""
    worst, where = 0.0, ""
    for (number, output), gradient in expected.items():
        delta = graph.nodes[number].deltas[output]
        found = np.zeros_like(gradient) if delta is None else delta
        size = max(float(np.abs(gradient).max(initial=0.0)), float(np.abs(found).max(initial=0.0)), 1e-300)
        gap = float(np.abs(found - gradient).max(initial=0.0)) / size
        if not gap <= worst:
            worst, where = gap, graph.nodes[number].name
    holds = worst <= TIGHT
    detail = f"{counted(len(expected), 'delta')}, each the sum over its edges, equal those of torch.autograd"
    if not holds:
        detail = f"the delta of {where} is not what torch.autograd gives: a hook, or a part that was not seen"
    return Check("torch.autograd", holds, worst, detail)
