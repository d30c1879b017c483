"""The target of a check: a class or function of a file, and examples for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import SIZES, AnyBatch, Batch, Labeled, Model, UsageError
from deepcanon.core.named_code import load_named
from deepcanon.laws.parts import Stepper
from deepcanon.laws.probe import seeded

Target = tuple[nn.Module, AnyBatch | None]

ROWS = 32
SIDES = (28, 32, 8, 16, 64, 96, 224)
"""Sides of images that a network is tried with where its first layer gives only the number of channels."""


def load_target(text: str) -> Target:
    """The module that ``FILE.py:Name`` or ``MODULE:Name`` names, and its examples where it has them.

    ``Name`` is a class with an ``example()``, a class that is built without arguments, or a function; the function and
    ``example()`` give a module, or a module and a batch.
    """
    return target_of(load_named(text), text.rpartition(":")[2])


def target_of(thing: Any, name: str = "") -> Target:
    """A module with its examples, from a class, a function, a module, or a pair of module and batch."""
    name = name or getattr(thing, "__name__", type(thing).__name__)
    if isinstance(thing, tuple | list) and len(thing) == 2:
        return _module(thing[0], name), _batch(thing[1], name)
    if isinstance(thing, Model):
        return thing, _example_for(thing)
    if isinstance(thing, nn.Module):
        return thing, None
    if isinstance(thing, type) and issubclass(thing, torch.optim.Optimizer):
        return Stepper(thing), None
    if not callable(thing):
        raise UsageError(f"{name} is a {type(thing).__name__}; a module, or a function that makes one, is needed")
    example = getattr(thing, "example", None)
    try:
        made = example() if callable(example) else thing()
    except Exception as error:
        how = f"{name}.example()" if callable(example) else f"{name}()"
        raise UsageError(
            f"{how} failed with {type(error).__name__}: {error}; give the class an example() that returns "
            "(module, batch), or name a function that does"
        ) from error
    return target_of(made, name) if isinstance(made, tuple | list) else (_module(made, name), None)


def _example_for(model: Model[Any]) -> AnyBatch | None:
    """The examples of the model's class, if the model has the sizes of them."""
    with torch.random.fork_rng(devices=[]):
        like, batch = type(model).example()
    same = all(model.hparams.get(size) == like.hparams.get(size) for size in SIZES)
    return batch if same else None


def invented_batch(module: nn.Module) -> Labeled:
    """Random examples of every class for a classifier, their size read off its first layer."""
    faults: list[str] = []
    for x in _candidates(module):
        try:
            with torch.no_grad():
                output = module.eval()(x)
        except Exception as error:
            words = str(error).strip().splitlines() or ["no message"]
            fault = f"raised {type(error).__name__}: {words[0]}"
            # Images of a wrong side are a RuntimeError in torch; any other error says more and comes first.
            faults.insert(len(faults) if isinstance(error, RuntimeError) else 0, f"{fault} (given {tuple(x.shape)})")
            continue
        if isinstance(output, Tensor) and output.ndim == 2:
            return Labeled(x, torch.arange(ROWS) % output.shape[1])
        found = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        faults.insert(0, f"gave {found} where logits, (examples, classes), are needed (given {tuple(x.shape)})")
    problem = (
        f"{type(module).__name__} {faults[0]}; if its input has another shape,"
        if faults
        else f"what {type(module).__name__} takes cannot be read off its first layer;"
    )
    raise UsageError(
        f"{problem} give the class an example() that returns (module, Labeled(x, y)), or name a function that does"
    )


def _candidates(module: nn.Module) -> list[Tensor]:
    random = seeded(0)
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            return [torch.randn(ROWS, layer.in_features, generator=random)]
        if isinstance(layer, nn.Conv1d):
            return [torch.randn(ROWS, layer.in_channels, side, generator=random) for side in SIDES]
        if isinstance(layer, nn.Conv2d):
            return [torch.randn(ROWS, layer.in_channels, side, side, generator=random) for side in SIDES]
    return []


def _module(thing: Any, name: str) -> nn.Module:
    if not isinstance(thing, nn.Module):
        raise UsageError(f"{name} gave a {type(thing).__name__} where a torch.nn.Module is needed")
    return thing


def _batch(thing: Any, name: str) -> AnyBatch | None:
    if thing is None or isinstance(thing, AnyBatch):
        return thing
    if isinstance(thing, Tensor):
        return Batch(thing)
    if isinstance(thing, tuple | list) and len(thing) == 2 and all(isinstance(part, Tensor) for part in thing):
        return Labeled(*thing)
    raise UsageError(f"{name} gave a {type(thing).__name__} where examples are needed: a Batch, x, or (x, y)")
