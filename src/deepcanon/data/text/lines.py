"""The lines of a text as whole sequences, each between a begin and an end token: ``text:lines``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deepcanon.core import DataError, Sequences
from deepcanon.data.dataset import Dataset
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens, padded
from deepcanon.data.text.tokenizers import tokenizer_of
from deepcanon.data.text.windows import stream

MARK = "lines"
"""The suffix of the form."""


def is_cut(data: Dataset[Any]) -> bool:
    """Whether a text has been cut into lines."""
    return "end_token" in data.sizes


def in_lines(data: Dataset[Any]) -> Dataset[Sequences]:
    """The lines of the text that are not empty, right-padded; with its end token a line is one of finitely many tokens.

    A language model of them is a distribution over whole lines: the begin token is what it is given, and generation
    ends at the end token.
    """
    before = tokenizer_of(data.vocabulary, data.preprocessing)
    tokenizer = WithSpecialTokens(before, SpecialTokens.first("padding", "begin", "end"))

    def part(old: Sequences | None) -> Any:
        if old is None:
            return None
        text = before.decode(stream(old).tolist())
        lines = [line for line in text.split("\n") if line]
        if len(lines) < 2:
            raise DataError(f"{data.name} has no lines: its tokens keep no line ends, as words do, or it has only one")
        return Sequences(*padded([tokenizer.row(line) for line in lines], tokenizer.special.padding))

    train, valid, test = (part(old) for old in (data.train, data.valid, data.test))
    longest = max(each.x.shape[1] for each in (train, valid, test) if each is not None)
    return replace(
        data,
        name=f"{data.name}:{MARK}",
        train=train,
        valid=valid,
        test=test,
        sizes={"vocab": len(tokenizer.vocabulary), "length": longest - 1, **tokenizer.special.sizes},
        shape=(longest,),
        vocabulary=tokenizer.vocabulary,
        preprocessing={**data.preprocessing, "tokenizer": tokenizer.to_json()},
    )
