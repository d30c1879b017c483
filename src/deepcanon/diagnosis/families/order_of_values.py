"""The order in which an autoregressive model predicts: what a prediction may not depend on, found by changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Labeled, Model, Sequences, given_batch
from deepcanon.diagnosis.families.flow_exactness import stirred
from deepcanon.diagnosis.patient import Patient

ROWS = 4
PLACES = 24
"""At how many positions, spread over all, a later value is changed."""

ROUNDED = 16 * torch.finfo(torch.float32).eps
"""The share of an output that rounding may change: some models compute by groups that depend on the values."""


class Leak(NamedTuple):
    """A prediction that depends on what it must not know: ``at`` this position, on the value at ``source``."""

    at: int
    source: int
    change: float


def predicts_in_order(model: Any) -> bool:
    """Whether the model gives logits of all values at once, each given those before it, and says in which order.

    Those of a table have a ``drawing_order``; those of images come pixel by pixel (``at_pixels``).
    """
    said = any(callable(getattr(model, name, None)) for name in ("drawing_order", "at_pixels"))
    return said and all(callable(getattr(model, name, None)) for name in ("logits", "log_prob", "sample"))


@torch.no_grad()
def leak_of_table(model: Any, batch: AnyBatch) -> tuple[Leak | None, int]:
    """The first leak among the logits of values, and how many positions were tried.

    The logits of a value must stay, but for rounding, when it and those that are drawn later are changed.
    """
    few = batch.select(torch.arange(min(ROWS, len(batch))))
    model = given_batch(stirred(copy.deepcopy(model).eval()), few)
    x = few.x.flatten(1).to(next(model.parameters()).dtype)
    order = _order(model, x.shape[1])
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order))
    places = _spread(len(order))
    for place in places:
        leak = _depends(model, x, int(order[place]), rank)
        if leak is not None:
            return leak, len(places)
    return None, len(places)


def _order(model: Any, count: int) -> Tensor:
    """The positions of the values, flat, in the order in which they are drawn."""
    if callable(getattr(model, "drawing_order", None)):
        return torch.tensor(list(model.drawing_order()))
    return torch.arange(count).reshape(model.shape).movedim(0, -1).flatten()  # at a pixel channel after channel


def _logits(model: Any, x: Tensor, at: int) -> Tensor:
    """The logits of the value at a position, (B, ...)."""
    if callable(getattr(model, "drawing_order", None)):
        found: Tensor = model.logits(x)[:, at]
        return found
    return model.logits(x.reshape(-1, *model.shape)).flatten(2)[:, :, at]  # type: ignore[no-any-return]


def _depends(model: Any, x: Tensor, at: int, rank: Tensor) -> Leak | None:
    """Whether the logits at a position change with its own or later values, each set to another value of the data."""
    before = _logits(model, x, at)
    later = rank >= rank[at]
    other = torch.where(later, _another(x), x)
    after = _logits(model, other, at)
    if not _moved(before, after):
        return None
    for source in torch.nonzero(later).flatten().tolist():
        single = x.clone()
        single[:, source] = other[:, source]
        found = _logits(model, single, at)
        if _moved(before, found):
            return Leak(at, source, float((found - before).abs().max()))
    return Leak(at, at, float((after - before).abs().max()))


def _rounding(values: Tensor) -> float:
    """What sums of single precision may differ by that are added up in another order."""
    return ROUNDED * float(torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0).abs().max())


def _moved(before: Tensor, after: Tensor) -> bool:
    return bool((after - before).abs().max() > _rounding(before))


def predicts_next_token(model: Any, batch: AnyBatch) -> bool:
    """Whether outputs may not know later positions: the model says ``causal``, or labels are the inputs one later."""
    if not isinstance(batch, Sequences | Labeled) or batch.x.ndim < 2 or batch.x.shape[1] < 3:
        return False
    if isinstance(model, Model):
        return bool(model.causal)
    x, y = batch.x, batch.labels
    return y is not None and x.ndim <= 3 and y.shape == x.shape and torch.equal(y[:, :-1], x[:, 1:])


def predicted_token(patient: Patient) -> str:
    """What the loss wants the output at a token to be: the ``same`` token, the ``next`` one, or neither: empty.

    The gradient of a cross-entropy by the scores of a position is negative at its target alone.
    """
    if patient.train_split.x.is_floating_point():
        return ""
    model = patient.twin().eval()
    seen: list[tuple[Tensor, Tensor]] = []
    with _outputs_kept(model, seen):
        loss = patient.loss(model, patient.batch(ROWS))
    if len(seen) != 1:
        return ""
    tokens, scores = seen[0]
    if tokens.is_floating_point() or tokens.ndim != 2:
        return ""
    slope: Tensor | None = torch.autograd.grad(loss, scores, allow_unused=True)[0]
    pull = None if slope is None else by_position(slope, *tokens.shape)
    if pull is None or pull.ndim != 3:
        return ""
    pulled, wanted = pull.abs().sum(-1) > 0, pull.argmin(-1)
    for name, other in (("same", tokens), ("next", tokens.roll(-1, 1))):
        told = pulled if name == "same" else pulled & (torch.arange(tokens.shape[1]) < tokens.shape[1] - 1)
        changes = bool((tokens != tokens.roll(-1, 1))[told].any())
        if changes and torch.equal(wanted[told], other[told]):
            return name
    return ""


@contextmanager
def _outputs_kept(model: nn.Module, seen: list[tuple[Tensor, Tensor]]) -> Iterator[None]:
    """Keep what the outputs of tokens are computed from and come to, as the loss uses them."""
    if isinstance(model, Model) and callable(getattr(model, "outputs", None)):
        own: Any = model.outputs

        def outputs(tokens: Tensor) -> Tensor:
            found: Tensor = own(tokens)
            seen.append((tokens, found))
            return found

        model.__dict__["outputs"] = outputs
        try:
            yield
        finally:
            del model.__dict__["outputs"]
        return

    def keep(_: nn.Module, inputs: Any, output: Any) -> None:
        output = output[0] if isinstance(output, tuple) else output
        if inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
            seen.append((inputs[0], output))

    hook = model.register_forward_hook(keep)
    try:
        yield
    finally:
        hook.remove()


@torch.no_grad()
def leak_of_sequence(model: nn.Module, batch: AnyBatch) -> tuple[Leak | None, int] | None:
    """The first output of a sequence that changes by more than rounding when later positions are changed.

    None where the outputs are not one for each position.
    """
    few: Any = batch.select(torch.arange(min(ROWS, len(batch))))
    if isinstance(few, Sequences):  # the last token is predicted only
        few = replace(few, x=few.x[:, :-1], lengths=few.lengths.clamp_max(few.x.shape[1] - 1))
    model = stirred(copy.deepcopy(model).eval())
    model = given_batch(model, few) if isinstance(model, Model) else model
    before = _outputs(model, few)
    length = few.x.shape[1]
    if before is None:
        return None
    places = _spread(length - 1)
    for place in places:
        later = torch.arange(length) > place
        later = later.reshape(1, -1, *[1] * (few.x.ndim - 2))
        other = replace(few, x=torch.where(later, _another(few.x), few.x))
        after = _outputs(model, other)
        assert after is not None
        known = (before[:, : place + 1], after[:, : place + 1])
        if _moved(*known):
            change = (known[0] - known[1]).abs()
            at = int(torch.nonzero(change.amax((0, 2)) > _rounding(known[0]))[0])
            return Leak(at, place + 1, float(change.max())), len(places)
    return None, len(places)


def _outputs(model: nn.Module, batch: AnyBatch) -> Tensor | None:
    """The outputs of each position, (B, T, ...); None where there are none."""
    found = model(*batch.inputs)
    found = found[0] if isinstance(found, tuple) else found
    if not isinstance(found, Tensor) or not found.is_floating_point():
        return None
    placed = by_position(found.double(), len(batch), batch.x.shape[1])
    return None if placed is None else placed.reshape(*placed.shape[:2], -1)


def by_position(output: Tensor, rows: int, length: int) -> Tensor | None:
    """An output of each position, (B, T, ...), also of one that is flat, (B T, V), or has scores first, (B, V, T)."""
    if output.ndim >= 2 and output.shape[:2] == (rows, length):
        return output
    if output.ndim == 3 and (output.shape[0], output.shape[2]) == (rows, length):
        return output.transpose(1, 2)
    if output.ndim == 2 and len(output) == rows * length:
        return output.reshape(rows, length, -1)
    return None


def _another(x: Tensor) -> Tensor:
    """Other values of the same kind: of tokens another token that occurs, of numbers others."""
    if x.is_floating_point():
        low, high = x.aminmax()
        return low + high - x if bool(((low + high - x) != x).any()) else x + 1
    known = x.unique()
    place = torch.searchsorted(known, x.contiguous())
    other: Tensor = known[(place + 1) % len(known)]
    return other


def _spread(count: int) -> list[int]:
    """Some of so many positions, from the first to the last."""
    few = min(PLACES, count)
    return sorted({round(i * (count - 1) / max(1, few - 1)) for i in range(few)})
