"""Probes of a module: its outputs in double precision, for one example or for repeated ones, as plain tensors."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution, Independent, TransformedDistribution

from deepcanon.core import Batch, Labeled, conditioned
from deepcanon.core.conditional import given_batch
from deepcanon.core.turn import B

TIGHT = 1e-9
"""The largest relative difference of two ways to compute the same number in double precision."""

LOOSE = 1e-4
"""The same in single precision."""


def doubled(module: nn.Module, batch: B) -> tuple[Any, B]:
    """Module and batch in double precision, the module in eval mode."""
    return module.double().eval(), converted(batch, lambda t: t.double() if t.is_floating_point() else t)


def precise(module: nn.Module, batch: B) -> tuple[Any, B, float]:
    """Module and batch as exact as the module allows, in eval mode, and the bound that fits.

    That is double precision, or single for a module that casts its input or output to single precision.
    """
    double, rows = doubled(copy.deepcopy(module), batch)
    inputs: Any = rows
    try:
        with torch.no_grad():
            outputs = tensors_of([ask(inputs) for ask in maps(double).values()])
        kept = not any(output.dtype == torch.float32 for output in outputs)
    except RuntimeError:  # which torch raises where precisions meet; anything else wrong shows in single precision, too
        kept = False
    if kept:
        return double, rows, TIGHT
    return module.float().eval(), converted(batch, lambda t: t.float() if t.is_floating_point() else t), LOOSE


def converted(batch: B, change: Callable[[Tensor], Tensor]) -> B:
    """The batch with every tensor changed."""
    tensors = {part.name: getattr(batch, part.name) for part in fields(batch)}
    return replace(batch, **{name: change(value) for name, value in tensors.items() if isinstance(value, Tensor)})


def first(batch: B, count: int) -> B:
    return batch.select(torch.arange(min(count, len(batch)), device=batch.x.device))


def repeated(batch: B, times: int) -> B:
    return batch.select(torch.arange(len(batch), device=batch.x.device).repeat(times))


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def tensors_of(value: Any) -> list[Tensor]:
    """Every tensor in an output: a tensor, a distribution by its parameters, or a collection or dataclass of these."""
    return list(_walk(value))


def _walk(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Independent | TransformedDistribution):
        yield from _walk(value.base_dist)
    elif isinstance(value, Distribution):
        yield from (getattr(value, name) for name in sorted(value.arg_constraints))
    elif isinstance(value, Mapping):
        yield from _walk(list(value.values()))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _walk(part)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _walk([getattr(value, part.name) for part in fields(value)])


def same(left: Any, right: Any) -> bool:
    """Whether two outputs are equal bit for bit."""
    pairs = zip(tensors_of(left), tensors_of(right), strict=True)
    return all(a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def distance(left: Any, right: Any) -> float:
    """The largest difference of two outputs, relative to the size of their values; NaN where either has one."""
    largest = 0.0
    for a, b in zip(tensors_of(left), tensors_of(right), strict=True):
        if a.shape != b.shape:
            return float("inf")
        if a.numel() and not torch.equal(a, b):
            size = 1 + float(b.abs().max())
            gap = float((a.to(torch.float64) - b.to(torch.float64)).abs().max()) / size
            if math.isnan(gap):
                return gap
            largest = max(largest, gap)
    return largest


def total(terms: Mapping[str, Tensor]) -> Tensor:
    """The objective: the sum of the terms."""
    return torch.stack([value.reshape(()) for value in terms.values()]).sum()


def maps(module: Any) -> dict[str, Callable[[Batch], Any]]:
    """The deterministic maps of a module, by name: one row of output for every example, in its context."""
    found: dict[str, Callable[[Batch], Any]] = {}
    if module.forward.__name__ != "_forward_unimplemented":
        found["forward"] = lambda batch: conditioned(module, batch)(*batch.inputs)
    if hasattr(module, "predict"):
        found["predict mean"] = lambda batch: conditioned(module, batch).predict(*batch.inputs, how="mean")
    if hasattr(module, "log_prob") and getattr(module, "likelihood_kind", "") in ("exact", "unnormalized"):
        found["log_prob"] = lambda batch: log_prob_of(conditioned(module, batch), batch)
    methods = [method for method in ("energy", "score", "encode", "reconstruct") if hasattr(module, method)]
    return found | {method: partial(_ask, module, method) for method in methods}


def draws(module: Any, batch: Batch) -> dict[str, Callable[[Generator | None], Any]]:
    """The random samples of a module, by name, as functions of the generator."""
    found: dict[str, Callable[[Generator | None], Any]] = {}
    if hasattr(module, "sample"):
        found["sample"] = lambda generator: conditioned(module, batch, 64).sample(64, generator=generator)
    if hasattr(module, "predict"):
        many = repeated(batch, 16).inputs
        found["predict sample"] = lambda generator: module.predict(*many, how="sample", generator=generator)
    if hasattr(module, "log_prob") and getattr(module, "likelihood_kind", "") in ("lower bound", "estimate"):
        here = conditioned(module, batch)
        found["log_prob"] = lambda generator: here.log_prob(batch.x, samples=3, generator=generator)
    return found


def log_prob_of(module: Any, batch: Any) -> Tensor:
    """The ``log_prob`` of the examples of a batch, given their context; of sequences, with their lengths."""
    model = given_batch(module, batch)
    if hasattr(module, "sequences_of"):
        x, lengths = module.sequences_of(batch)
        found: Tensor = model.log_prob(x, lengths=lengths)
    else:
        found = model.log_prob(batch.modeled)
    return found


def is_certain(model: Any, batch: Batch) -> bool:
    """Whether every class has the probability 0 or 1, so that all samples are the same."""
    if not isinstance(batch, Labeled) or batch.y.is_floating_point():
        return False
    shares = model.predict(*batch.inputs, how="mean")
    return bool(((shares == 0) | (shares == 1)).all())


def _ask(module: Any, method: str, batch: Batch) -> Any:
    return getattr(conditioned(module, batch), method)(batch.x)
