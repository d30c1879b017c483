"""The laws of sequence models: any module that reads rows of tokens, (B, T), or of real values, (B, T, features).

A module is called as its batch says: ``module(x, lengths)`` with sequences of unequal length, ``module(x)`` with plain
examples. It has an output at every position, (B, T, ...), or one for a whole sequence, (B, ...); of several outputs
the first counts. Recurrent layers of torch are called with packed sequences.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from deepcanon.core import AnyBatch, Captioned, LabeledSequences, Model, SequencePairs, Sequences, UsageError
from deepcanon.laws.conditioned import Given
from deepcanon.laws.continuations import NO_TOKEN, affordable, continuations, until
from deepcanon.laws.discrete import chi_square, stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import TIGHT, distance, doubled, first, seeded, tensors_of, total

ROWS = 8
PADDING = 3
DRAWS = 4000


@law
def outputs_are_causal(module: Any, batch: AnyBatch) -> Measured | None:
    """The output at a position of a module that is declared ``causal`` does not change with what comes after it.

    Not by a bit, and be it NaN. Recurrent layers of torch are declared so unless they are bidirectional.
    """
    model, batch = _prepared(module, batch)
    if not _is_causal(module) or not _is_per_position(model, batch):
        return None
    before, faults = _detached(model, batch), 0
    length = batch.x.shape[1]
    worst = ""
    for position in range(1, length):
        later = torch.arange(length) >= position
        other = replace(batch, x=torch.where(_spread(later.expand(len(batch), -1), batch.x), _poison(batch.x), batch.x))
        after = _detached(model, other)
        if not torch.equal(after[:, :position], before[:, :position]):
            faults, worst = faults + 1, f"; what comes from position {position} on changes outputs before it"
    return faults, 0, f"{length} positions, each with another future{worst}"


@law
def each_position_is_read(module: Any, batch: AnyBatch) -> Measured | None:
    """The input at a position changes the output there: an output that is late by one position does not."""
    model, batch = _prepared(module, batch)
    if not _is_per_position(model, batch):
        return None
    before, unread = _detached(model, batch), []
    for position in range(batch.x.shape[1]):
        x = batch.x.clone()
        x[:, position] = _other(x)[:, position]
        after = _detached(model, replace(batch, x=x))
        inside = _inside(batch)[:, position]
        if bool(inside.any()) and torch.equal(after[inside, position], before[inside, position]):
            unread.append(str(position))
    return len(unread), 0, f"positions that are not read: {', '.join(unread) or 'none'} of {batch.x.shape[1]}"


@law
def padding_values_change_nothing(module: Any, batch: AnyBatch) -> Measured | None:
    """The values of the padding, be they NaN or, of a model, no token, change no bit of outputs and gradients."""
    if not _takes_lengths(module, batch):
        return None
    model, batch = _prepared(module, batch)
    batch = _ragged(batch)
    poison = (
        torch.full_like(batch.x, NO_TOKEN) if isinstance(model, Model) and not batch.x.is_floating_point() else None
    )
    poison = _poison(batch.x) if poison is None else poison
    broken: Any = replace(batch, x=torch.where(_spread(~_inside(batch), batch.x), poison, batch.x))
    if isinstance(batch, LabeledSequences) and batch.at_every_position and batch.y.is_floating_point():
        broken = replace(broken, y=torch.where(_spread(~_inside(batch), batch.y), math.nan, batch.y))
    changed = []
    if not torch.equal(_counted(_detached(model, broken), batch), _counted(_detached(model, batch), batch)):
        changed.append("the output")
    wanted, found = (_gradients(model, part) for part in (batch, broken))
    changed += [f"the gradient of {name}" for name in wanted if not torch.equal(found[name], wanted[name])]
    return len(changed), 0, f"changed by what the padding holds: {', '.join(changed[:3]) or 'nothing'}"


@law
def more_padding_changes_nothing(module: Any, batch: AnyBatch) -> Measured | None:
    """Sequences padded to a greater length have the same outputs and the same loss."""
    if not _takes_lengths(module, batch):
        return None
    model, batch = _prepared(module, batch)
    batch = _ragged(batch)
    more = {"x": _padded(batch.x)}
    if isinstance(batch, LabeledSequences) and batch.at_every_position:
        more["y"] = _padded(batch.y)
    longer = replace(batch, **more)
    gap = distance(_counted(_detached(model, longer), longer), _counted(_detached(model, batch), batch))
    if hasattr(model, "loss"):
        with torch.no_grad():
            gap = max(gap, distance(total(model.loss(longer)), total(model.loss(batch))))
    return gap, TIGHT, f"{PADDING} more positions of padding move outputs or loss by {gap:.2g}"


@law
def sequences_do_not_mix(module: Any, batch: AnyBatch) -> Measured | None:
    """A sequence has the output that it has alone and without its padding."""
    model, batch = _prepared(module, batch)
    ragged = _ragged(batch) if _takes_lengths(module, batch) else batch
    together, worst, where = _detached(model, ragged), 0.0, ""
    for row in range(len(ragged)):
        one = ragged.select(torch.tensor([row]))
        length = int(_lengths(one)[0])
        one = _cut(one, length)
        output = together[row : row + 1]
        gap = distance(_detached(model, one), output[:, :length] if _is_per_position(model, ragged) else output)
        if not gap <= worst:
            worst, where = gap, f"; the worst is row {row} of {length} positions"
    return worst, TIGHT, f"{len(ragged)} sequences, each also alone{where}"


@law
def parts_of_a_batch_add_up(module: Any, batch: AnyBatch) -> Measured | None:
    """The loss of sequences of unequal length is the mean of its parts', each with its ``weight``."""
    if not hasattr(module, "loss") or not _takes_lengths(module, batch) or len(batch) < 2:
        return None
    model, batch = _prepared(module, batch)
    batch = _ragged(batch)
    parts = [batch.select(index) for index in torch.arange(len(batch)).tensor_split(3) if len(index)]
    wanted = _gradients(model, batch)
    shares = [part.weight / batch.weight for part in parts]
    each = [_gradients(model, part) for part in parts]
    added = {name: sum((s * g[name] for s, g in zip(shares, each, strict=True)), torch.zeros(())) for name in wanted}
    with torch.no_grad():
        loss = sum(s * float(total(model.loss(part))) for s, part in zip(shares, parts, strict=True))
        gap = abs(loss - float(total(model.loss(batch))))
    gap = max([gap, *(distance(added[name], wanted[name]) for name in wanted)])
    return gap, TIGHT, f"loss and gradients of {len(parts)} parts are off by {gap:.2g} from those of the whole"


@law
def loss_is_nll_per_token(module: Any, batch: AnyBatch) -> Measured | None:
    """The loss is the negative log-likelihood of all sequences by the number of tokens that are predicted."""
    if not (hasattr(module, "loss") and _gives_tokens(module, batch)):
        return None
    model, batch = _prepared(module, batch)
    batch = _ragged(batch)
    with torch.no_grad():
        nats = -float(model.log_prob(batch.x, lengths=_lengths(batch)).sum())
        loss = float(total(model.loss(batch)))
    return (
        abs(loss - nats / batch.weight),
        TIGHT * (1 + abs(loss)),
        f"the loss is {loss:.6g}; {nats:.6g} nats for {batch.weight} tokens",
    )


@law
def steps_add_up_to_the_sequence(module: Any, batch: AnyBatch) -> Measured | None:
    """``step_log_probs`` sum to ``log_prob``; if the module is ``causal``, those of steps know no later token."""
    if not (hasattr(module, "step_log_probs") and _gives_tokens(module, batch)):
        return None
    model, batch = _prepared(module, batch)
    ragged = _ragged(batch)
    with torch.no_grad():
        steps = model.step_log_probs(ragged.x, lengths=ragged.lengths)
        if steps.shape != ragged.x.shape:
            return 1, 0, f"the steps are {tuple(steps.shape)} where {tuple(ragged.x.shape)} is expected"
        gap = distance(steps.sum(1), model.log_prob(ragged.x, lengths=ragged.lengths))
        before = model.step_log_probs(batch.x)
        for position in range(1, batch.x.shape[1] if _is_causal(module) else 1):
            other = torch.cat([batch.x[:, :position], _other(batch.x)[:, position:]], 1)
            gap = max(gap, distance(model.step_log_probs(other)[:, :position], before[:, :position]))
    return gap, TIGHT, f"{steps.shape[1]} steps; sums and steps before another future are off by {gap:.2g}"


@law
def continuations_sum_to_one(module: Any, batch: AnyBatch) -> Measured | None:
    """The probabilities of all that can follow a first token sum to 1."""
    if not _gives_tokens(module, batch):
        return None
    model, batch = _prepared(stirred(module), batch)
    worst, seen = 0.0, 0
    with torch.no_grad():
        vocab = _detached(model, batch).shape[-1]
        steps = affordable(vocab, batch.x.shape[1] - 1)
        for begin in range(min(vocab, 4)):
            rows = continuations(vocab, steps, begin)
            mass = float(model.log_prob(rows).double().logsumexp(0).exp())
            worst, seen = max(worst, abs(mass - 1)), len(rows)
    return (
        worst,
        1e-6,
        f"the probabilities of all {seen} continuations of {steps} tokens are off by {worst:.2g} from 1",
    )


@law
def whole_sequences_sum_to_one(module: Any, batch: AnyBatch) -> Measured | None:
    """The probabilities of all sequences that end within some tokens, and of all that do not yet, sum to 1.

    A sequence is complete at its first end token: the model's ``end_token``, or else its last token serves as one.
    """
    if not _gives_tokens(module, batch):
        return None
    model, batch = _prepared(stirred(module), batch)
    with torch.no_grad():
        vocab = _detached(model, batch).shape[-1]
        steps = affordable(vocab, batch.x.shape[1] - 1)
        end = getattr(model, "end_token", vocab - 1)
        rows, lengths = until(continuations(vocab, steps, begin=0), end)
        mass = float(model.log_prob(rows, lengths=lengths).double().logsumexp(0).exp())
    return abs(mass - 1), 1e-6, f"the probabilities of {len(rows)} sequences of up to {steps} tokens sum to {mass:.9g}"


@law
def generated_tokens_follow_the_distribution(module: Any, batch: AnyBatch) -> Measured | None:
    """Samples of ``generate`` are as frequent as ``log_prob`` says (chi-square test)."""
    if not (hasattr(module, "generate") and _gives_tokens(module, batch)):
        return None
    model, batch = _prepared(stirred(module), batch)
    with torch.no_grad():
        vocab = _detached(model, batch).shape[-1]
        steps = min(affordable(vocab, batch.x.shape[1] - 1), 3)
        rows = continuations(vocab, steps, begin=0)
        drawn = model.generate(torch.zeros(DRAWS, 1, dtype=torch.long), steps, generator=seeded(0))
        return chi_square(drawn, rows, DRAWS * model.log_prob(rows).double().exp())


@law
def greedy_decoding_takes_the_likeliest_token(module: Any, batch: AnyBatch) -> Measured | None:
    """At temperature 0 each generated token is the likeliest by the logits of ``forward`` for all tokens before it."""
    if not hasattr(module, "generate") or batch.x.is_floating_point():
        return None
    model, batch = _prepared(stirred(module), batch)
    prompt, steps = batch.x[:, :2], 2 * batch.x.shape[1]
    with torch.no_grad():
        made = model.generate(prompt, steps, temperature=0)
        logits = tensors_of(model(made))[0][:, 1:-1]
        deficit = logits.max(-1).values - logits.gather(-1, made[:, 2:].unsqueeze(-1)).squeeze(-1)
    worst = float(deficit.max())
    return (
        worst,
        TIGHT * (1 + float(logits.abs().max())),
        f"{steps} tokens; the lead of another is at most {worst:.2g}",
    )


LAWS = (
    outputs_are_causal,
    each_position_is_read,
    padding_values_change_nothing,
    more_padding_changes_nothing,
    sequences_do_not_mix,
    parts_of_a_batch_add_up,
    loss_is_nll_per_token,
    steps_add_up_to_the_sequence,
    continuations_sum_to_one,
    whole_sequences_sum_to_one,
    generated_tokens_follow_the_distribution,
    greedy_decoding_takes_the_likeliest_token,
)


def check_sequence(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of sequence models in any module that reads sequences.

    One that writes sequences given something else, as a translator does, is held to them given the first example's.
    """
    if isinstance(batch, SequencePairs | Captioned):
        module, batch = Given(module, batch), Sequences(batch.y, batch.y_lengths)
    tokens = batch.x.ndim == 2 and not batch.x.is_floating_point()
    if not tokens and not (batch.x.ndim == 3 and batch.x.is_floating_point()):
        raise UsageError(
            f"sequences are whole numbers, (B, T), or real numbers, (B, T, features); "
            f"got {batch.x.dtype} of {tuple(batch.x.shape)}"
        )
    return outcomes(LAWS, module, batch)


def _prepared(module: nn.Module, batch: AnyBatch) -> tuple[Any, Any]:
    """The module in double precision and eval mode, and a few rows."""
    return doubled(module, first(batch, ROWS))


@torch.no_grad()
def _detached(model: Any, batch: AnyBatch) -> Tensor:
    """The first output without gradients."""
    return _output(model, batch)


def _output(model: Any, batch: AnyBatch) -> Tensor:
    """The first output; of recurrent layers of torch the outputs at every position, rows first."""
    if not isinstance(model, nn.RNNBase):
        return tensors_of(model(*batch.inputs))[0]
    packed, _ = model(pack_padded_sequence(batch.x, _lengths(batch).cpu(), batch_first=True, enforce_sorted=False))
    padded, _ = pad_packed_sequence(packed, batch_first=True, total_length=batch.x.shape[1])
    return padded


def _is_per_position(model: Any, batch: AnyBatch) -> bool:
    output, shorter = _detached(model, batch), _detached(model, _cut(batch, batch.x.shape[1] - 1))
    return output.ndim >= 2 and output.shape[1] == batch.x.shape[1] and shorter.shape[1] == output.shape[1] - 1


def _is_causal(module: Any) -> bool:
    declared: bool = not module.bidirectional if isinstance(module, nn.RNNBase) else getattr(module, "causal", False)
    return declared


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
    """A mask of positions for a tensor that may have several values at a position."""
    return mask.view(*mask.shape, *[1] * (like.ndim - 2)).expand_as(like)


def _counted(output: Tensor, batch: AnyBatch) -> Tensor:
    """The outputs at positions that are not padding, one row each, or those of whole sequences."""
    return output[_inside(batch)] if output.ndim >= 3 and output.shape[1] == batch.x.shape[1] else output


def _poison(x: Tensor) -> Tensor:
    return torch.full_like(x, math.nan) if x.is_floating_point() else _other(x)


def _other(x: Tensor) -> Tensor:
    """Another value at every position: of tokens, the next one that occurs."""
    if x.is_floating_point():
        return x + 1
    known = x.unique()
    other: Tensor = known[(torch.searchsorted(known, x) + 1) % len(known)]
    return other


def _ragged(batch: Any) -> Any:
    """The batch with lengths from 2 to all positions, whatever they were; plain examples get lengths, too."""
    most = batch.x.shape[1]
    lengths = 2 + torch.arange(len(batch)) * 5 % max(1, most - 1)
    if hasattr(batch, "lengths"):
        return replace(batch, lengths=torch.minimum(lengths, batch.lengths))
    return _Rows(batch.x, lengths)


class _Rows(Sequences):
    """Plain examples with lengths, for recurrent layers of torch."""


def _cut(batch: Any, length: int) -> Any:
    """The batch with its first positions only."""
    shorter = {"x": batch.x[:, :length]}
    if hasattr(batch, "lengths"):
        shorter["lengths"] = batch.lengths.clamp_max(length)
    if isinstance(batch, LabeledSequences) and batch.at_every_position:
        shorter["y"] = batch.y[:, :length]
    return replace(batch, **shorter)


def _padded(values: Tensor) -> Tensor:
    return torch.cat([values, values[:, :1].expand(-1, PADDING, *values.shape[2:])], 1)


def _gradients(model: Any, batch: Any) -> dict[str, Tensor]:
    """The gradient of the loss, or of the squared outputs, by every parameter; counts have none."""
    model.zero_grad()
    with torch.enable_grad():
        loss = (
            total(model.loss(batch))
            if hasattr(model, "loss")
            else _counted(_output(model, batch), batch).square().sum()
        )
    if loss.requires_grad:
        loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
