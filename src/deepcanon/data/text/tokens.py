"""Other tokens or windows of a text: ``text:characters``, ``text:bytes``, ``text:bpe=512``, ``text:length=256``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from deepcanon.core import Sequences, UsageError
from deepcanon.data.dataset import Dataset
from deepcanon.data.text.bpe import BPE
from deepcanon.data.text.tokenizers import Bytes, Characters, Tokenizer, tokenizer_of
from deepcanon.data.text.windows import stream, windows

MARKS = ("characters", "bytes", "bpe", "length")
"""The beginnings of the suffixes of these forms."""

SHOWN = ("characters", "bytes", "bpe=512", "length=256")
"""The suffixes as they are written."""


def is_form(form: str) -> bool:
    return form.partition("=")[0] in MARKS


def check(name: str, kind: str, form: str) -> None:
    """Refuse a suffix that is not a form of a text, and data that are not text."""
    mark, _, number = form.partition("=")
    if kind != "text":
        raise UsageError(f"{name} gives {kind}, but {mark} is a form of text; leave out ':{form}'")
    if not re.fullmatch(r"characters|bytes|bpe=\d+|length=[1-9]\d*", form):
        raise UsageError(f"a text has the forms {', '.join(f'{name}:{shown}' for shown in SHOWN)}; got {name}:{form}")
    if mark == "bpe" and int(number) <= 256:
        raise UsageError(f"a byte-pair encoding has more tokens than the 256 bytes; got {name}:{form}")


def in_tokens(data: Dataset[Sequences], form: str) -> Dataset[Sequences]:
    """The text in other tokens, which are learned from its training split, or in windows of another length."""
    mark, _, number = form.partition("=")
    before = tokenizer_of(data.vocabulary, data.preprocessing)
    if mark == "characters":  # which every text comes in
        if not isinstance(before, Characters):
            raise UsageError(f"the tokens of {data.name} are others already; leave out ':{form}'")
        return replace(data, name=f"{data.name}:{form}")
    if mark == "length":
        return _cut(data, form, before, int(number), lambda codes: codes)
    text = before.decode(stream(data.train).tolist())
    after: Tokenizer = Bytes() if mark == "bytes" else BPE.train(text, int(number))
    return _cut(data, form, after, data.sizes["length"], lambda codes: after.encode(before.decode(codes)))


def _cut(
    data: Dataset[Sequences], form: str, tokenizer: Tokenizer, length: int, change: Callable[[list[int]], list[int]]
) -> Dataset[Sequences]:
    """The splits of the data in changed tokens and new windows."""

    def part(old: Sequences | None) -> Any:
        return None if old is None else windows(torch.tensor(change(stream(old).tolist())), length)

    return replace(
        data,
        name=f"{data.name}:{form}",
        train=part(data.train),
        valid=part(data.valid),
        test=part(data.test),
        sizes={**data.sizes, "vocab": len(tokenizer.vocabulary), "length": length},
        shape=(length + 1,),
        vocabulary=tokenizer.vocabulary,
        preprocessing={**data.preprocessing, "tokenizer": tokenizer.to_json()},
    )
