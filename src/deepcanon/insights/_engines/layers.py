"""The layers of any model in the order in which they answer, and which of their answers are maps of the input."""

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
"""Layers that pass on what they are given, at least at rest."""


@dataclass(frozen=True)
class Answer:
    """What a module answered; of a module that is asked more than once, each time by the same name."""

    name: str
    module: nn.Module
    output: Tensor

    @property
    def is_map(self) -> bool:
        """Whether it is (B, channels, height, width) with more than one place."""
        return self.output.ndim == 4 and prod(self.output.shape[2:]) > 1


@contextmanager
def watched(model: nn.Module) -> Iterator[list[Answer]]:
    """Inside, the list grows by what every module of the model answers, and the model is at rest.

    Answers are copies, since the ReLU after a layer often overwrites its answer in place.
    """
    answers: list[Answer] = []

    def listen(name: str) -> Any:
        def heard(module: nn.Module, given: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                answers.append(Answer(name, module, output.clone()))

        return heard

    handles = [module.register_forward_hook(listen(name)) for name, module in model.named_modules() if name]
    try:
        with eval_mode(model), torch.random.fork_rng(devices=[]):
            yield answers
    finally:
        for handle in handles:
            handle.remove()


def answers_of(model: nn.Module, inputs: Sequence[Any]) -> list[Answer]:
    """What every module of the model answers to these inputs, without gradients."""
    with watched(model) as answers:
        model(*inputs)
    return answers


def images_of(batch: AnyBatch) -> Tensor:
    """The examples of the batch if they are images, (B, channels, height, width)."""
    if batch.x.ndim != 4 or not batch.x.is_floating_point():
        raise DataError(
            "this looks at images, (examples, channels, height, width); "
            f"got {batch.noun} of the shape {tuple(batch.x.shape)}"
        )
    return batch.x


def last_map(answers: Sequence[Answer]) -> Answer:
    """The map that the last convolution leaves, after the normalization, the ReLU or the end of the block behind it.

    A pooling right behind the convolution belongs to it, too, a later one does not, since it only makes the map
    coarser. Convolutions and poolings that leave a single place are passed over.
    """
    convolutions = [i for i, answer in enumerate(answers) if answer.is_map and isinstance(answer.module, CONVOLUTIONS)]
    if not convolutions:
        raise UsageError("the model has no convolution with more than one place in its answer to these examples")
    first = last = answers[convolutions[-1]]
    for answer in answers[convolutions[-1] + 1 :]:
        pooled = last is first and answer.is_map and "Pool" in type(answer.module).__name__
        if answer.output.shape[2:] != last.output.shape[2:] and not pooled:
            break
        if not isinstance(answer.module, PASSING):
            last = answer
    return last


def named(answers: Sequence[Answer], layer: str) -> Answer:
    """The last answer of the layer of this name."""
    found = [answer for answer in answers if answer.name == layer]
    if not found:
        names = list(dict.fromkeys(answer.name for answer in answers))
        raise UsageError(f"the model has no layer {layer!r} that answers with a tensor; there are {', '.join(names)}")
    return found[-1]
