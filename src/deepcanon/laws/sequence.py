"""The laws of sequence models: any module that reads rows of tokens, (B, T), or of real values, (B, T, features).

A module is called as its batch says: ``module(x, lengths)`` with sequences of unequal length, ``module(x)`` with plain
examples. It answers at every place, (B, T, ...), or once for a whole sequence, (B, ...); of several outputs the first
counts. Recurrent layers of torch are called as torch means it, with packed sequences.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from deepcanon.core import AnyBatch, LabeledSequences, Sequences, UsageError
from deepcanon.laws.discrete import MOST, chi_square, stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import TIGHT, distance, doubled, first, seeded, tensors_of, total

ROWS = 8
PADDING = 3
DRAWS = 4000


@law
def the_future_is_not_seen(module: Any, batch: AnyBatch) -> Measured | None:
    """What is said at a place does not change by a bit with what comes behind it, be it NaN."""
    model, batch = _asked(module, batch)
    if not _at_every_place(model, batch):
        return None
    before, faults = _say(model, batch), 0
    places = batch.x.shape[1]
    worst = ""
    for place in range(1, places):
        later = torch.arange(places) >= place
        other = replace(batch, x=torch.where(_spread(later.expand(len(batch), -1), batch.x), _poison(batch.x), batch.x))
        after = _say(model, other)
        if not torch.equal(after[:, :place], before[:, :place]):
            faults, worst = faults + 1, f"; what comes from place {place} on is seen before it"
    return faults, 0, f"{places} places, each with another future{worst}"


@law
def each_place_is_read(module: Any, batch: AnyBatch) -> Measured | None:
    """What stands at a place changes what is said there: an answer that is late by one place does not see it."""
    model, batch = _asked(module, batch)
    if not _at_every_place(model, batch):
        return None
    before, unread = _say(model, batch), []
    for place in range(batch.x.shape[1]):
        x = batch.x.clone()
        x[:, place] = _other(x)[:, place]
        after = _say(model, replace(batch, x=x))
        inside = _inside(batch)[:, place]
        if bool(inside.any()) and torch.equal(after[inside, place], before[inside, place]):
            unread.append(str(place))
    return len(unread), 0, f"places that are not read: {', '.join(unread) or 'none'} of {batch.x.shape[1]}"


@law
def padding_is_not_seen(module: Any, batch: AnyBatch) -> Measured | None:
    """What stands behind the end of a sequence, be it NaN, changes no bit of what is said or learned."""
    if not _takes_lengths(module, batch):
        return None
    model, batch = _asked(module, batch)
    batch = _ragged(batch)
    broken: Any = replace(batch, x=torch.where(_spread(~_inside(batch), batch.x), _poison(batch.x), batch.x))
    if isinstance(batch, LabeledSequences) and batch.at_every_place and batch.y.is_floating_point():
        broken = replace(broken, y=torch.where(_spread(~_inside(batch), batch.y), math.nan, batch.y))
    changed = []
    if not torch.equal(_counted(_say(model, broken), batch), _counted(_say(model, batch), batch)):
        changed.append("the output")
    wanted, found = (_gradients(model, part) for part in (batch, broken))
    changed += [f"the gradient of {name}" for name in wanted if not torch.equal(found[name], wanted[name])]
    return len(changed), 0, f"changed by what the padding holds: {', '.join(changed[:3]) or 'nothing'}"


@law
def more_padding_changes_nothing(module: Any, batch: AnyBatch) -> Measured | None:
    """Sequences padded to a greater length are answered alike, and have the same loss."""
    if not _takes_lengths(module, batch):
        return None
    model, batch = _asked(module, batch)
    batch = _ragged(batch)
    longer = replace(batch, x=_padded(batch.x))
    if isinstance(longer, LabeledSequences) and longer.at_every_place:
        longer = replace(longer, y=_padded(longer.y))
    gap = distance(_counted(_say(model, longer), longer), _counted(_say(model, batch), batch))
    if hasattr(model, "loss"):
        with torch.no_grad():
            gap = max(gap, distance(total(model.loss(longer)), total(model.loss(batch))))
    return gap, TIGHT, f"{PADDING} more places of padding move answers or loss by {gap:.2g}"


@law
def sequences_do_not_mix(module: Any, batch: AnyBatch) -> Measured | None:
    """A sequence gets the answer that it gets alone and without its padding."""
    model, batch = _asked(module, batch)
    ragged = _ragged(batch) if _takes_lengths(module, batch) else batch
    together, worst, where = _say(model, ragged), 0.0, ""
    for row in range(len(ragged)):
        one = ragged.select(torch.tensor([row]))
        length = int(_lengths(one)[0])
        one = _cut(one, length)
        said = together[row : row + 1]
        gap = distance(_say(model, one), said[:, :length] if _at_every_place(model, ragged) else said)
        if not gap <= worst:
            worst, where = gap, f"; the worst is row {row} of {length} places"
    return worst, TIGHT, f"{len(ragged)} sequences, each also by itself{where}"


@law
def parts_of_a_batch_add_up(module: Any, batch: AnyBatch) -> Measured | None:
    """The loss of sequences of unequal length is the mean of its parts', each with its ``weight``."""
    if not hasattr(module, "loss") or not _takes_lengths(module, batch) or len(batch) < 2:
        return None
    model, batch = _asked(module, batch)
    batch = _ragged(batch)
    parts = [batch.select(index) for index in torch.arange(len(batch)).tensor_split(3) if len(index)]
    wanted = _gradients(model, batch)
    shares = [part.weight / batch.weight for part in parts]
    each = [_gradients(model, part) for part in parts]
    added = {name: sum((s * g[name] for s, g in zip(shares, each, strict=True)), torch.zeros(())) for name in wanted}
    with torch.no_grad():
        loss = sum(s * float(total(model.loss(part))) for s, part in zip(shares, parts, strict=True))
        gap = abs(loss - float(total(model.loss(batch))))
    gap = max(gap, *(distance(added[name], wanted[name]) for name in wanted))
    return gap, TIGHT, f"loss and gradients of {len(parts)} parts are off by {gap:.2g} from those of the whole"


@law
def loss_is_nats_per_token(module: Any, batch: AnyBatch) -> Measured | None:
    """The loss is minus the log-probability of all sequences by the number of tokens that are predicted."""
    if not (hasattr(module, "loss") and _gives_tokens(module, batch)):
        return None
    model, batch = _asked(module, batch)
    batch = _ragged(batch)
    with torch.no_grad():
        nats = -float(model.log_prob(batch.x, context=_lengths(batch)).sum())
        loss = float(total(model.loss(batch)))
    return (
        abs(loss - nats / batch.weight),
        TIGHT * (1 + abs(loss)),
        (f"the loss is {loss:.6g}; {nats:.6g} nats for {batch.weight} tokens"),
    )


@law
def continuations_sum_to_one(module: Any, batch: AnyBatch) -> Measured | None:
    """The probabilities of all that can follow a first token sum to 1."""
    if not _gives_tokens(module, batch):
        return None
    model, batch = _asked(stirred(module), batch)
    worst, seen = 0.0, 0
    with torch.no_grad():
        vocab = _say(model, batch).shape[-1]
        steps = _affordable(vocab, batch.x.shape[1] - 1)
        for begin in range(min(vocab, 4)):
            rows = _continuations(vocab, steps, begin)
            mass = float(model.log_prob(rows).double().logsumexp(0).exp())
            worst, seen = max(worst, abs(mass - 1)), len(rows)
    return (
        worst,
        1e-6,
        f"the probabilities of all {seen} continuations of {steps} tokens are off by {worst:.2g} from 1",
    )


@law
def generated_tokens_follow_the_probabilities(module: Any, batch: AnyBatch) -> Measured | None:
    """What ``generate`` draws comes as often as ``log_prob`` says (chi-square)."""
    if not (hasattr(module, "generate") and _gives_tokens(module, batch)):
        return None
    model, batch = _asked(stirred(module), batch)
    with torch.no_grad():
        vocab = _say(model, batch).shape[-1]
        steps = min(_affordable(vocab, batch.x.shape[1] - 1), 3)
        rows = _continuations(vocab, steps, begin=0)
        drawn = model.generate(torch.zeros(DRAWS, 1, dtype=torch.long), steps, generator=seeded(0))
        return chi_square(drawn, rows, DRAWS * model.log_prob(rows).double().exp())


@law
def generation_is_what_is_predicted(module: Any, batch: AnyBatch) -> Measured | None:
    """At temperature 0 each generated token is the likeliest that ``forward`` gives for all that was read so far."""
    if not hasattr(module, "generate") or batch.x.is_floating_point():
        return None
    model, batch = _asked(stirred(module), batch)
    prompt, steps = batch.x[:, :2], 2 * batch.x.shape[1]
    with torch.no_grad():
        made = model.generate(prompt, steps, temperature=0)
        logits = tensors_of(model(made))[0][:, 1:-1]
        behind = logits.max(-1).values - logits.gather(-1, made[:, 2:].unsqueeze(-1)).squeeze(-1)
    worst = float(behind.max())
    return (
        worst,
        TIGHT * (1 + float(logits.abs().max())),
        f"{steps} tokens; the lead of another is at most {worst:.2g}",
    )


LAWS = (
    the_future_is_not_seen,
    each_place_is_read,
    padding_is_not_seen,
    more_padding_changes_nothing,
    sequences_do_not_mix,
    parts_of_a_batch_add_up,
    loss_is_nats_per_token,
    continuations_sum_to_one,
    generated_tokens_follow_the_probabilities,
    generation_is_what_is_predicted,
)


def check_sequence(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """What the laws of sequence models find in any module that reads sequences."""
    tokens = batch.x.ndim == 2 and not batch.x.is_floating_point()
    if not tokens and not (batch.x.ndim == 3 and batch.x.is_floating_point()):
        raise UsageError(
            f"sequences are whole numbers, (B, T), or real numbers, (B, T, features); "
            f"got {batch.x.dtype} of {tuple(batch.x.shape)}"
        )
    return outcomes(LAWS, module, batch)


def _asked(module: nn.Module, batch: AnyBatch) -> tuple[Any, Any]:
    """The module in double precision and eval mode, and a few rows."""
    return doubled(module, first(batch, ROWS))


@torch.no_grad()
def _say(model: Any, batch: AnyBatch) -> Tensor:
    """What the module says, to be looked at only."""
    return _output(model, batch)


def _output(model: Any, batch: AnyBatch) -> Tensor:
    """The first output, of recurrent layers of torch the outputs at every place, rows first."""
    if not isinstance(model, nn.RNNBase):
        return tensors_of(model(*batch.inputs))[0]
    said, _ = model(pack_padded_sequence(batch.x, _lengths(batch).cpu(), batch_first=True, enforce_sorted=False))
    padded, _ = pad_packed_sequence(said, batch_first=True, total_length=batch.x.shape[1])
    return padded


def _at_every_place(model: Any, batch: AnyBatch) -> bool:
    said, shorter = _say(model, batch), _say(model, _cut(batch, batch.x.shape[1] - 1))
    return said.ndim >= 2 and said.shape[1] == batch.x.shape[1] and shorter.shape[1] == said.shape[1] - 1


def _takes_lengths(module: Any, batch: AnyBatch) -> bool:
    return isinstance(module, nn.RNNBase) or hasattr(batch, "lengths")


def _gives_tokens(module: Any, batch: AnyBatch) -> bool:
    return hasattr(module, "log_prob") and isinstance(batch, Sequences)


def _lengths(batch: AnyBatch) -> Tensor:
    lengths: Tensor | None = getattr(batch, "lengths", None)
    return torch.full((len(batch),), batch.x.shape[1]) if lengths is None else lengths


def _inside(batch: AnyBatch) -> Tensor:
    return torch.arange(batch.x.shape[1]) < _lengths(batch).unsqueeze(1)  # (B, T)


def _spread(mask: Tensor, like: Tensor) -> Tensor:
    """A mask of places for a tensor that may have several values at a place."""
    return mask.view(*mask.shape, *[1] * (like.ndim - 2)).expand_as(like)


def _counted(said: Tensor, batch: AnyBatch) -> Tensor:
    """What was said at places that count, one row each, or about whole sequences."""
    return said[_inside(batch)] if said.ndim >= 3 and said.shape[1] == batch.x.shape[1] else said


def _poison(x: Tensor) -> Tensor:
    return torch.full_like(x, math.nan) if x.is_floating_point() else _other(x)


def _other(x: Tensor) -> Tensor:
    """Another value at every place: of tokens, the next one that occurs."""
    if x.is_floating_point():
        return x + 1
    known = x.unique()
    other: Tensor = known[(torch.searchsorted(known, x) + 1) % len(known)]
    return other


def _ragged(batch: Any) -> Any:
    """The batch with lengths from 2 to all places, whatever they were; plain examples stand for their longest ones."""
    places = batch.x.shape[1]
    lengths = 2 + torch.arange(len(batch)) * 5 % max(1, places - 1)
    if hasattr(batch, "lengths"):
        return replace(batch, lengths=torch.minimum(lengths, batch.lengths))
    return _Rows(batch.x, lengths)


class _Rows(Sequences):
    """Plain examples with lengths, for recurrent layers of torch."""


def _cut(batch: Any, length: int) -> Any:
    """The batch with its first places only."""
    shorter = {"x": batch.x[:, :length]}
    if hasattr(batch, "lengths"):
        shorter["lengths"] = batch.lengths.clamp_max(length)
    if isinstance(batch, LabeledSequences) and batch.at_every_place:
        shorter["y"] = batch.y[:, :length]
    return replace(batch, **shorter)


def _padded(values: Tensor) -> Tensor:
    return torch.cat([values, values[:, :1].expand(-1, PADDING, *values.shape[2:])], 1)


def _gradients(model: Any, batch: Any) -> dict[str, Tensor]:
    """The gradient of the loss, or of what is said, in every parameter that has one."""
    model.zero_grad()
    with torch.enable_grad():
        said = (
            total(model.loss(batch))
            if hasattr(model, "loss")
            else _counted(_output(model, batch), batch).square().sum()
        )
    said.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _affordable(vocab: int, most: int) -> int:
    """Over how many tokens all continuations can be written out."""
    return max(1, min(most, int(math.log(MOST) / math.log(vocab))))


def _continuations(vocab: int, steps: int, begin: int) -> Tensor:
    """Every row of ``steps`` tokens behind a first one."""
    every = torch.cartesian_prod(*[torch.arange(vocab)] * steps).reshape(-1, steps)
    return torch.cat([torch.full((len(every), 1), begin), every], 1)
