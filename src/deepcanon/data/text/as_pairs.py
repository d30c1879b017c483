"""A text as pairs to be learned from without labels: ``text:spans``, corrupted spans, and ``text:prefix``, a prefix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from deepcanon.core import DataError, SequencePairs, Sequences
from deepcanon.core.padding import valid_positions
from deepcanon.data.dataset import Dataset
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens
from deepcanon.data.text.tokenizers import WithSentinels, tokenizer_of

SPANS, PREFIX = "spans", "prefix"
"""The suffixes of the forms."""

SHARE, MEAN = 0.15, 3.0
"""The share of the tokens that is replaced, and the mean length of a span."""


@dataclass(frozen=True, eq=False)
class TextPairs(SequencePairs):
    """Pairs that are made of texts: ``text`` (B, T), of which the first ``sizes`` tokens count."""

    text: Tensor
    sizes: Tensor


@dataclass(frozen=True)
class Signs:
    """The tokens that pairs need: begin, end, and the first of the sentinels."""

    begin: int
    end: int
    sentinel: int


def is_form(form: str) -> bool:
    return form in (SPANS, PREFIX)


def in_pairs(data: Dataset[Any], form: str) -> Dataset[TextPairs]:
    """The windows of a text as pairs; in training they are drawn anew at every step.

    Corrupted spans: of each window 15 % of the tokens, in spans of three on average, are replaced by a sentinel each;
    the target has each sentinel with the tokens that it stands for; as in the code of the paper, a window begins with
    a span that is kept and ends with one that is replaced. A prefix: the window is cut at a random place, and
    what follows it is the target.

    References:
        | Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (Raffel et al., 2020;
          sections 3.1.4 and 3.2.3), https://arxiv.org/abs/1910.10683
    """
    before = tokenizer_of(data.vocabulary, data.preprocessing)
    length = data.shape[0]
    if length < 2:
        raise DataError(f"pairs are made of windows of two tokens or more; those of {data.name} have {length}")
    counts = _counts(torch.tensor([length]))
    plain = WithSentinels(before, int(counts[1])) if form == SPANS else before
    tokenizer = WithSpecialTokens(plain, SpecialTokens.first("padding", "begin", "end"))
    special = tokenizer.special.sizes
    signs = Signs(special["begin_token"], special["end_token"], len(before.vocabulary) + len(special))
    change = partial(corrupted if form == SPANS else split, signs=signs)

    def part(old: Sequences | None, seed: int) -> Any:
        if old is None:
            return None
        keep = old.lengths > 1  # a window of one token has nothing to predict
        text = (old.x + len(special)).masked_fill(~valid_positions(old.x, old.lengths), 0)[keep]
        return change(text, old.lengths[keep], torch.Generator().manual_seed(seed))

    train, valid, test = (part(old, seed) for seed, old in enumerate((data.train, data.valid, data.test)))
    vocab = len(tokenizer.vocabulary)
    return replace(
        data,
        name=f"{data.name}:{form}",
        kind="pairs",
        train=train,
        valid=valid,
        test=test,
        sizes={
            "vocab": vocab, "target_vocab": vocab,
            "begin_token": signs.begin, "end_token": signs.end,
        },
        shape=(length,),
        vocabulary=tokenizer.vocabulary,
        target_vocabulary=tokenizer.vocabulary,
        preprocessing={
            **data.preprocessing,
            "tokenizer": tokenizer.to_json(),
            "target_tokenizer": tokenizer.to_json(),
        },
        fresh=partial(_anew, change=change),
    )  # fmt: skip


def corrupted(text: Tensor, sizes: Tensor, generator: Generator, signs: Signs) -> TextPairs:
    """Texts (B, T) with spans replaced by sentinels, and as targets the sentinels with what they stand for.

    >>> signs = Signs(begin=1, end=2, sentinel=90)
    >>> text, random = torch.arange(10, 20).unsqueeze(0), torch.Generator().manual_seed(3)
    >>> pairs = corrupted(text, torch.tensor([10]), random, signs)
    >>> pairs.x[0].tolist(), pairs.y[0].tolist()
    ([10, 11, 12, 13, 14, 15, 16, 17, 90], [1, 90, 18, 19, 2])
    """
    noise, spans = _counts(sizes)
    most, width = int(spans.max()), text.shape[1]
    lengths = torch.stack(
        [_segments(sizes - noise, spans, width, generator), _segments(noise, spans, width, generator)]
    )
    ends = lengths[..., :most].permute(1, 2, 0).flatten(1).cumsum(1)  # of kept and replaced spans in turn
    place = torch.arange(width)
    number = (ends.unsqueeze(1) <= place.unsqueeze(1)).sum(2)  # (B, T): in which of them a token stands
    inside = place < sizes.unsqueeze(1)
    replaced = (number % 2 == 1) & inside
    first = replaced & ~pad(replaced, (1, 0))[:, :-1]
    sentinel = signs.sentinel + number // 2
    x = _pushed(torch.where(first, sentinel, text), inside & (~replaced | first))
    pieces = torch.stack([sentinel, text], 2).flatten(1), torch.stack([first, replaced], 2).flatten(1)
    return TextPairs(*x, *_framed(*_pushed(*pieces), signs), text, sizes)


def split(text: Tensor, sizes: Tensor, generator: Generator, signs: Signs) -> TextPairs:
    """Texts (B, T) cut in two at random places: the first part, and as the target the second."""
    cut = 1 + (torch.rand(len(text), generator=generator) * (sizes - 1)).long()
    place = torch.arange(text.shape[1])
    before = place < cut.unsqueeze(1)
    after = ~before & (place < sizes.unsqueeze(1))
    return TextPairs(*_pushed(text, before), *_framed(*_pushed(text, after), signs), text, sizes)


def _anew(batch: TextPairs, generator: Generator, change: Callable[..., TextPairs]) -> TextPairs:
    """Other pairs of the same texts."""
    text, sizes = batch.text.cpu(), batch.sizes.cpu()
    return replace(change(text, sizes, generator).to(batch.device), positions=batch.positions)


def _counts(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """How many tokens of texts of these lengths are replaced, and in how many spans, (B,)."""
    noise = torch.minimum((SHARE * sizes.double()).round().long().clamp_min(1), sizes - 1)
    spans = torch.minimum((noise / MEAN).round().long().clamp_min(1), sizes - noise)
    return noise, spans


def _segments(items: Tensor, segments: Tensor, width: int, generator: Generator) -> Tensor:
    """Random lengths, each at least 1, of so many segments of so many items, (B, width), with zeros after the last."""
    place = torch.arange(width - 1)
    order = torch.rand(len(items), width - 1, generator=generator).masked_fill(place >= (items - 1).unsqueeze(1), 2.0)
    begins = order.argsort(1).argsort(1) < (segments - 1).unsqueeze(1)
    number = pad(begins.cumsum(1), (1, 0))  # of the segment of each item
    counted = (torch.arange(width) < items.unsqueeze(1)).long()
    return torch.zeros_like(number).scatter_add(1, number, counted)


def _pushed(tokens: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """The kept tokens of each row at its beginning, zeros after them, and how many they are."""
    lengths = kept.sum(1)
    order = (~kept).long().argsort(dim=1, stable=True)[:, : int(lengths.max())]
    row = tokens.gather(1, order)
    return row.masked_fill(~valid_positions(row, lengths), 0), lengths


def _framed(y: Tensor, lengths: Tensor, signs: Signs) -> tuple[Tensor, Tensor]:
    """Targets between begin and end tokens."""
    framed = pad(y, (1, 1))
    framed[:, 0] = signs.begin
    return framed.scatter(1, lengths.unsqueeze(1) + 1, signs.end), lengths + 2
