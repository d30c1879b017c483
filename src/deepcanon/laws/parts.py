"""Parts of networks: how layers, losses and optimizers are recognized, and the inputs that are invented for them.

A part says what it is by its type, by its name in camel case, or by the names of the arguments of ``forward``. Where it
is a name, its answers to invented inputs must agree: a network that is named after one of its layers is not that layer.
"""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Model, UsageError
from deepcanon.laws.probe import seeded


class Recognize(Protocol):
    """A function of a module and the examples that it came with: examples for the laws of a kind, or None."""

    def __call__(self, module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None: ...


WIDTHS = (
    "num_features",
    "num_channels",
    "normalized_shape",
    "in_features",
    "in_channels",
    "embed_dim",
    "hidden_size",
    "input_size",
    "d_model",
    "width",
    "features",
    "channels",
    "dim",
)
"""The attributes in which layers keep the size of their input."""

ROWS, STEPS, SIDE = 6, 5, 7
"""Examples, positions of a sequence, and the side of an image."""


class Stepper(nn.Module):
    """A class of optimizers in the place of a module, so that laws can be asked of it."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def accepts(self, option: str) -> bool:
        return option in inspect.signature(self.make).parameters

    def forward(self, x: Tensor) -> Tensor:
        raise UsageError(f"{self.make.__name__} is an optimizer and gives no output")


def is_plain(module: nn.Module) -> bool:
    """Whether a module has nothing to say but ``forward``: a deepcanon model is recognized by its methods."""
    return not isinstance(module, Model)


def called(thing: nn.Module | type, pattern: str) -> bool:
    """Whether the class has this word in its name, or that of a parent has: ``Norm`` is in BatchNorm2d, not in Normal.

    >>> called(nn.BatchNorm2d(3), "Norm"), called(nn.Linear(3, 3), "Norm")
    (True, False)
    """
    found = thing if isinstance(thing, type) else type(thing)
    names = [cls.__name__ for cls in found.__mro__ if cls not in (nn.Module, object)]
    return any(re.search(rf"(?:{pattern})(?![a-z])", name) for name in names)


def arguments(module: nn.Module) -> list[str]:
    """The names of the arguments of ``forward``."""
    return list(inspect.signature(module.forward).parameters)


def attribute(module: nn.Module, *names: str) -> Any:
    """The first of these attributes that is there."""
    return next((getattr(module, name) for name in names if getattr(module, name, None) is not None), None)


def answer(module: nn.Module, *inputs: Any, training: bool = False) -> Any:
    """The output of a copy of the module, or None where it refuses the inputs."""
    try:
        with torch.no_grad():
            own = [each.clone() if isinstance(each, Tensor) else each for each in inputs]  # some work in place
            return copy.deepcopy(module).train(training)(*own)
    except Exception:  # whatever a stranger's forward raises, these inputs are not for it
        return None


def keeps_shape(x: Tensor, output: Tensor) -> bool:
    return x.shape == output.shape


def accepted(
    module: nn.Module, inputs: Iterable[Tensor], suits: Callable[[Tensor, Tensor], bool] = keeps_shape
) -> Tensor | None:
    """The first input that the module answers with a tensor that suits, as does one of the same shape."""
    tried = list(inputs)
    for how in ("error", "ignore"):  # what a module warns of may be a shape that it only puts up with
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter(how)
            for x in tried:
                output = answer(module, x, training=True)
                if isinstance(output, Tensor) and suits(x, output):
                    return x
    return None


def is_affine(module: nn.Module, x: Tensor) -> bool:
    """Whether the output in eval mode is affine in the input, as that of no network with an activation is."""
    other = torch.randn(x.shape, generator=seeded(1)).to(x)
    zero, one, two, mixed = (answer(module, each) for each in (torch.zeros_like(x), x, other, 2 * x - other))
    if not all(isinstance(each, Tensor) for each in (zero, one, two, mixed)):
        return False
    return torch.allclose(mixed, 2 * one - two, rtol=1e-3, atol=1e-4 * float(1 + mixed.abs().max()))


def given_or(batch: AnyBatch | None, inputs: Iterable[Tensor]) -> Iterable[Tensor]:
    """The examples that came with the module, or invented ones."""
    return inputs if batch is None else [batch.x]


def sequences(module: nn.Module) -> list[Tensor]:
    """Sequences of vectors, (B, T, width)."""
    return [_normal(ROWS, STEPS, width) for width in widths(module)]


def vectors(module: nn.Module) -> list[Tensor]:
    """Vectors, sequences and images of all widths that the module may take, the features last or as channels."""
    found = []
    for width in widths(module):
        found += [_normal(ROWS, width), _normal(ROWS, STEPS, width), _normal(ROWS, width, STEPS)]
        found += [_normal(ROWS, width, SIDE, SIDE), _normal(ROWS, width, SIDE, SIDE, SIDE)]
    return found


def widths(module: nn.Module) -> list[int]:
    """The sizes that the input of a module may have, the likeliest first."""
    found: list[int] = []
    for part in module.modules():
        for name in WIDTHS:
            value = getattr(part, name, None)
            value = value[-1] if isinstance(value, tuple | list) and value else value
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                found.append(value)
    for parameter in (*module.parameters(), *module.buffers()):
        found += list(parameter.shape[::-1])
    return list(dict.fromkeys([*(size for size in found if size <= 4096), 8]))[:6]


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=seeded(0))
