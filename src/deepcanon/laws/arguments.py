"""The law of arguments: an optional argument of a method matters, or is refused; none is silently ignored."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import Batch, DeepcanonError, UsageError, given_batch, is_conditional, methods_of
from deepcanon.laws.discrete import stirred
from deepcanon.laws.outcome import Measured, law, violations
from deepcanon.laws.play import train_briefly
from deepcanon.laws.probe import is_certain, repeated, same, seeded

Values = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Two sets of keywords that differ in the argument in question."""

COUNT = 64
"""How many samples, or rows to generate from, are asked for: enough that two random ones differ."""

CHANGES = 12

SEARCHES = ("beam_search", "exact_search")

FURTHER = ("ddim", "alignment", "log_partition", "retrieve", "attention_maps", "fill")
"""Methods with optional arguments that belong to no role of the contract, or to a part of one."""


@law
def optional_arguments_matter(model: Any, batch: Batch) -> Measured | None:
    """Each optional argument of each method changes what comes out, or is refused with a sentence."""
    train_briefly(model, batch)
    model.eval()
    asked: list[str] = []
    faults: list[str] = []
    for method in (*methods_of(model), *(each for each in FURTHER if hasattr(model, each))):
        for name in _optional(getattr(model, method)):
            asked.append(f"{method} {name}")
            with torch.no_grad():
                ignored = all(_ignored(each, batch, method, name) for each in _variants(model, method, name))
            if ignored:
                faults.append(f"{method} ignores {name}")
    return violations(faults, f"arguments {', '.join(asked)}") if asked else None


def _optional(method: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(method).parameters.values()
    return [each.name for each in parameters if each.default is not inspect.Parameter.empty]


def _variants(model: Any, method: str, name: str) -> Iterator[Any]:
    """The model, and variants with changed weights where tokens that are found or drawn are often the same."""
    yield model
    for _ in range(CHANGES if method in ("translate", *SEARCHES, "fill", "retrieve") or name == "context" else 0):
        yield stirred(copy.deepcopy(model))


def _ignored(model: Any, batch: Batch, method: str, name: str) -> bool:
    if method in ("generate", "beam_search"):
        batch = repeated(batch, 1 + COUNT // max(1, len(batch)))
    subject = model if name == "context" else given_batch(model, batch)
    inputs = _inputs(subject, batch, method)
    if name == "generator" and method == "predict" and is_certain(subject, batch):
        return False  # all samples are the same
    values = _values(subject, batch, method, name)
    try:
        one, other = (getattr(subject, method)(*inputs, **words) for words in values)
    except DeepcanonError as error:
        return name not in str(error)  # what is refused for another reason has not been tried
    return same(one, other)


def _inputs(model: Any, batch: Batch, method: str) -> tuple[Any, ...]:
    """The required arguments of a method."""
    if method == "log_partition":
        return ()
    if method in ("sample", "ddim"):
        return (len(batch) if is_conditional(model) else COUNT,)  # a row of the context for each
    if method == "predict":
        return repeated(batch, 4).inputs if len(batch) > 1 else batch.inputs
    if method in ("generate", "beam_search"):
        return _sequences(model, batch)[0][:, :2], 6
    if method == "exact_search":
        return _sequences(model, batch)[0][:, :1], 3
    if method == "alignment":
        source, _, target, _ = batch.inputs
        return source, target
    if method == "retrieve":
        chosen = torch.randint(2, (COUNT, *batch.x.shape[1:]), generator=seeded(0)).bool()
        return (torch.where(chosen, batch.x.min(), batch.x.max()),)  # noise: what is stored stays as it is
    if method == "fill":
        x = batch.x.clone()
        x[:, 1] = model.masking.mask_token
        return (x,)
    if method in ("log_prob", "step_log_probs"):
        return (_sequences(model, batch)[0] if hasattr(model, "sequences_of") else batch.modeled,)
    if method == "decode":
        code = given_batch(model, batch).encode(batch.x)
        return (code if isinstance(code, Tensor) else code.mean,)
    if method == "forecast":
        return batch, 3
    return (batch.x,)


def _sequences(model: Any, batch: Any) -> tuple[Tensor, Tensor]:
    """The examples that a likelihood is of, and their lengths, where they are sequences."""
    if hasattr(model, "sequences_of"):
        x, lengths = model.sequences_of(batch)
        return x, lengths
    return batch.x, getattr(batch, "lengths", torch.full((len(batch),), batch.x.shape[1]))


def _values(model: Any, batch: Batch, method: str, name: str) -> Values:
    """Two values of an argument, other arguments chosen so that it can matter."""
    exact = method == "log_prob" and getattr(model, "likelihood_kind", "exact") in ("exact", "unnormalized")
    seed = {"generator": seeded(0)} if "generator" in _optional(getattr(model, method)) and not exact else {}
    again = {"generator": seeded(0)} if seed else {}
    if name == "generator":
        how = {"how": "sample"} if method == "predict" else {}
        return {**how, "generator": seeded(0)}, {**how, "generator": seeded(1)}
    if name == "context":
        if not is_conditional(model):
            return seed, {"context": torch.zeros(len(batch), dtype=torch.long), **again}
        context = model.context_of(batch)
        rolled = context.roll(1, 0) if isinstance(context, Tensor) else tuple(part.roll(1, 0) for part in context)
        return {"context": context, **seed}, {"context": rolled, **again}
    if name == "lengths":
        lengths = batch.inputs[1] if method in ("translate", "alignment") else _sequences(model, batch)[1]
        return {"lengths": lengths}, {"lengths": (lengths - 1).clamp_min(1)}
    if name == "segments":
        segments = batch.inputs[2]
        return {"segments": segments}, {"segments": torch.zeros_like(segments)}
    if name == "y_lengths":
        lengths = batch.inputs[3]
        return {"y_lengths": lengths}, {"y_lengths": (lengths - 1).clamp_min(2)}
    others: dict[str, tuple[Any, Any]] = {
        "samples": (1, 3),
        "how": ("mode", "mean" if method == "predict" and is_certain(model, batch) else "sample"),
        "temperature": (1.0, 1e-4),
        "top_k": (None, 1),
        "top_p": (None, 1e-4),
        "beams": (1, 4),
        "top": (1, 2),
        "exact": (False, True),
        "length_penalty": (0.0, 8.0),
        "eta": (0.0, 1.0),
        "level": (0, 1),
        "sampler": getattr(model, "samplers", ("", ""))[:2],
        "chains": (2, 3),
        "temperatures": (5, 9),
        "update_steps": (0, 3),
        "steps": (1, 3),
        "t": (1, 2),
        "to": ("x", "y"),
    }
    if method in SEARCHES and name in ("stop", "length_penalty"):  # without a stop token all are equally long
        first = {"stop": int(getattr(model, method)(*_inputs(model, batch, method)).tokens[0, 0, 2])}
        return ({}, first) if name == "stop" else (first, {**first, "length_penalty": 8.0})
    if name == "stop":
        drawn = model.generate(*_inputs(model, batch, "generate"), generator=seeded(0))
        return seed, {**again, "stop": int(drawn[0, 2])}
    if name not in others:
        raise UsageError(f"the law of arguments knows no two values of {name!r}, an argument of {method}: add them")
    one, other = others[name]
    return {**seed, name: one}, {**again, name: other}
