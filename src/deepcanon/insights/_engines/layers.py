"""The outputs of the layers of any model in the order of the forward pass, and which of them are feature maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, DataError, UsageError, eval_mode

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
PASSING = (nn.Identity, nn.Dropout, nn.Dropout2d)
"""Layers that are the identity in evaluation mode."""


@dataclass(frozen=True)
class LayerOutput:
    """The output of one call of a module; a module that is called more than once has one for each call."""

    name: str
    module: nn.Module
    output: Tensor

    @property
    def is_map(self) -> bool:
        """Whether it is a feature map, (B, channels, height, width), with more than one position."""
        return self.output.ndim == 4 and prod(self.output.shape[2:]) > 1


@contextmanager
def recorded(model: nn.Module) -> Iterator[list[LayerOutput]]:
    """A context in which the outputs of all modules are recorded, with the model in evaluation mode.

    Outputs are copies, since the ReLU after a layer often overwrites its input in place.
    """
    outputs: list[LayerOutput] = []

    def recorder(name: str) -> Any:
        def record(module: nn.Module, given: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                outputs.append(LayerOutput(name, module, output.clone()))

        return record

    handles = [module.register_forward_hook(recorder(name)) for name, module in model.named_modules() if name]
    try:
        with eval_mode(model), torch.random.fork_rng(devices=[]):
            yield outputs
    finally:
        for handle in handles:
            handle.remove()


def outputs_of(model: nn.Module, inputs: Sequence[Any]) -> list[LayerOutput]:
    """The outputs of every module of the model for these inputs, without gradients."""
    with recorded(model) as outputs:
        model(*inputs)
    return outputs


def images_of(batch: AnyBatch) -> Tensor:
    """The examples of the batch if they are images, (B, channels, height, width)."""
    if batch.x.ndim != 4 or not batch.x.is_floating_point():
        raise DataError(
            "this is for images, (examples, channels, height, width); "
            f"got {batch.noun} of the shape {tuple(batch.x.shape)}"
        )
    return batch.x


def last_map(outputs: Sequence[LayerOutput]) -> LayerOutput:
    """The feature map of the last convolution, after the normalization, the ReLU or the end of the block after it.

    A pooling right after the convolution belongs to it, too, a later one does not, since it only makes the map
    coarser. Convolutions and poolings with an output of a single position are passed over.
    """
    convolutions = [i for i, output in enumerate(outputs) if output.is_map and isinstance(output.module, CONVOLUTIONS)]
    if not convolutions:
        raise UsageError("the model has no convolution with more than one position in its output for these examples")
    first = last = outputs[convolutions[-1]]
    for output in outputs[convolutions[-1] + 1 :]:
        pooled = last is first and output.is_map and "Pool" in type(output.module).__name__
        if output.output.shape[2:] != last.output.shape[2:] and not pooled:
            break
        if not isinstance(output.module, PASSING):
            last = output
    return last


def named(outputs: Sequence[LayerOutput], layer: str) -> LayerOutput:
    """The last output of the layer of this name."""
    found = [output for output in outputs if output.name == layer]
    if not found:
        names = list(dict.fromkeys(output.name for output in outputs))
        raise UsageError(f"the model has no layer {layer!r} whose output is a tensor; there are {', '.join(names)}")
    return found[-1]
