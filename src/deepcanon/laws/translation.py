"""The laws of models that translate: any module with ``translate`` that learns from pairs of sequences or captions.

A module is called as ``module(x, lengths, y, y_lengths)``, its likelihood of targets as
``log_prob(y, lengths=y_lengths, context=(x, lengths))``; it has an ``end_token``, and may have a ``loss``. Where the
source ``x`` is an image, it has no ``lengths``, and the target is its caption.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Captioned, Context, SequencePairs, UsageError
from deepcanon.core.turn import B
from deepcanon.laws.continuations import NO_TOKEN, affordable, continuations, until
from deepcanon.laws.discrete import stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import TIGHT, distance, doubled, first, total
from deepcanon.laws.sequence import PADDING

Pairs = SequencePairs | Captioned

ROWS = 6
CHANGES = 12


@law
def loss_is_nll_per_target_token(module: Any, batch: Pairs) -> Measured | None:
    """The loss is the negative log-likelihood of all targets by the number of their tokens that are predicted."""
    if not hasattr(module, "loss"):
        return None
    model, batch = _prepared(module, batch)
    with torch.no_grad():
        nats, loss = -float(_log_prob(model, batch).sum()), float(total(model.loss(batch)))
    words = f"the loss is {loss:.6g}; {nats:.6g} nats for {batch.weight} tokens"
    return abs(loss - nats / batch.weight), TIGHT * (1 + abs(loss)), words


@law
def parts_of_pairs_add_up(module: Any, batch: Pairs) -> Measured | None:
    """The loss of pairs of unequal length is the mean of its parts', each with its weight."""
    if not hasattr(module, "loss"):
        return None
    model, batch = _prepared(module, batch)
    parts = [batch.select(index) for index in torch.arange(len(batch)).tensor_split(3) if len(index)]
    with torch.no_grad():
        added = sum(part.weight / batch.weight * float(total(model.loss(part))) for part in parts)
        gap = abs(added - float(total(model.loss(batch))))
    return gap, TIGHT, f"the loss of {len(parts)} parts is off by {gap:.2g} from that of the whole"


@law
def padding_of_the_source_changes_nothing(module: Any, batch: Pairs) -> Measured | None:
    """Neither what the padding of a source holds nor how much of it there is changes a likelihood or a translation."""
    if isinstance(batch, Captioned):
        return None
    model, pairs = _prepared(module, batch)
    inside = torch.arange(pairs.x.shape[1]) < pairs.lengths.unsqueeze(1)
    dirty = pairs.x.masked_fill(~inside, NO_TOKEN)
    with torch.no_grad():
        wanted = _log_prob(model, pairs)
        longer = torch.cat([dirty, dirty.new_full((len(pairs), PADDING), NO_TOKEN)], 1)
        gap = max(distance(_log_prob(model, replace(pairs, x=x)), wanted) for x in (dirty, longer))
        written = model.translate(pairs.x, lengths=pairs.lengths)
        others = [model.translate(x, lengths=pairs.lengths) for x in (dirty, longer)]
    same = all(torch.equal(one, other) for each in others for one, other in zip(each, written, strict=True))
    words = f"other padding and {PADDING} more positions of it move log-likelihoods by {gap:.2g}"
    return gap if same else 1, TIGHT, f"{words}, and translations {'not at all' if same else 'too'}"


@law
def each_token_of_the_source_is_read(module: Any, batch: Pairs) -> Measured | None:
    """Another token at a position of the source changes the likelihood of the target."""
    if isinstance(batch, Captioned):
        return None
    model, pairs = _prepared(stirred(module), batch)
    known, unread = pairs.x.unique(), []
    with torch.no_grad():
        before = _log_prob(model, pairs)
        for position in range(int(pairs.lengths.max())):
            x = pairs.x.clone()
            x[:, position] = known[(torch.searchsorted(known, x[:, position].contiguous()) + 1) % len(known)]
            inside = pairs.lengths > position
            if torch.equal(_log_prob(model, replace(pairs, x=x))[inside], before[inside]):
                unread.append(str(position))
    return len(unread), 0, f"positions that are not read: {', '.join(unread) or 'none'} of {pairs.x.shape[1]}"


@law
def each_pixel_of_the_source_is_read(module: Any, batch: Pairs) -> Measured | None:
    """Another value of a pixel changes the likelihood of the caption of some image."""
    if isinstance(batch, SequencePairs):
        return None
    model, batch = _prepared(stirred(module), batch)
    flat, unread = batch.x.flatten(1), []
    with torch.no_grad():
        before = _log_prob(model, batch)
        for pixel in range(flat.shape[1]):
            other = flat.clone()
            other[:, pixel] += flat.abs().max() + 1  # beyond all others, so that no maximum hides it
            if torch.equal(_log_prob(model, replace(batch, x=other.view_as(batch.x))), before):
                unread.append(str(pixel))
    return len(unread), 0, f"pixels that are not read: {', '.join(unread) or 'none'} of {flat.shape[1]}"


@law
def a_wide_beam_finds_the_most_probable_target(module: Any, batch: Pairs) -> Measured:
    """With as many beams as there are targets up to some length, ``translate`` gives the likeliest of all of them.

    Greedy decoding finds it often, so that it is looked for under several changed weights.
    """
    model, batch = _prepared(module, first(batch, 2))
    deficit = 0.0
    with torch.no_grad():
        vocab = model(*batch.inputs).shape[-1]
        steps = min(3, affordable(vocab, 3))
        every, lengths = until(continuations(vocab, steps, int(batch.y[0, 0])), model.end_token)
        for _ in range(CHANGES):
            changed: Any = stirred(copy.deepcopy(model))
            for row in range(len(batch)):
                one = batch.select(torch.tensor([row]))
                context = _source(one)
                best = float(changed.log_prob(every, lengths=lengths, context=context).max())
                found, length = changed.translate(one.x, **_lengths(one), beams=len(every), steps=steps)
                deficit = max(deficit, best - float(changed.log_prob(found, lengths=length, context=context)))
    return deficit, TIGHT, f"the best of {len(every)} targets is more probable by {deficit:.2g} nats"


LAWS = (
    loss_is_nll_per_target_token,
    parts_of_pairs_add_up,
    padding_of_the_source_changes_nothing,
    each_token_of_the_source_is_read,
    each_pixel_of_the_source_is_read,
    a_wide_beam_finds_the_most_probable_target,
)


def check_translation(module: nn.Module, batch: Pairs) -> list[Outcome]:
    """The outcomes of the laws of translation in any module with ``translate``."""
    if not callable(getattr(module, "translate", None)) or not isinstance(batch, Pairs):
        raise UsageError("a model that translates has translate, and is checked on SequencePairs or Captioned")
    return outcomes(LAWS, module, batch)


def _prepared(module: nn.Module, batch: B) -> tuple[Any, B]:
    return doubled(module, first(batch, ROWS))


def _log_prob(model: Any, batch: Pairs) -> Tensor:
    found: Tensor = model.log_prob(batch.y, lengths=batch.y_lengths, context=_source(batch))
    return found


def _source(batch: Pairs) -> Context:
    return (batch.x, batch.lengths) if isinstance(batch, SequencePairs) else batch.x


def _lengths(batch: Pairs) -> dict[str, Tensor]:
    return {"lengths": batch.lengths} if isinstance(batch, SequencePairs) else {}
