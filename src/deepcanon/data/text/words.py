"""Word tokens of a text: ``text:words``, or ``text:words=5`` with the words that occur five times or more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from deepcanon.core import DataError, Sequences, UsageError
from deepcanon.data.dataset import Dataset
from deepcanon.data.text.windows import stream, windows

MARK = "words"
"""The beginning of the suffix of the form."""

UNKNOWN = "<unk>"
"""The token for all words that are too rare for the vocabulary."""

LEAST = 3
"""The least number of occurrences in the training split for a word to be in the vocabulary, by default."""

WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
"""Letters of any script, with apostrophes inside: digits, underscores and signs end a word."""


def read_form(name: str, form: str) -> int:
    """The least number of occurrences of a word that a form asks for.

    >>> read_form("text", "words"), read_form("text", "words=5")
    (3, 5)
    """
    found = re.fullmatch(rf"{MARK}(?:=([1-9]\d*))?", form)
    if found is None:
        raise UsageError(f"a text word by word is written {name}:words or {name}:words=5; got {name}:{form}")
    return int(found[1] or LEAST)


def words_of(text: str) -> list[str]:
    """The words of a text in lower case.

    >>> words_of("Don't run os.path.join(a_b, 3)!")
    ["don't", 'run', 'os', 'path', 'join', 'a', 'b']
    """
    return WORD.findall(text.lower())


def vocabulary(words: Sequence[str], least: int) -> tuple[str, ...]:
    """The unknown token, then all words that occur at least so often, the most frequent first.

    >>> vocabulary("to be or not to be".split(), least=2)
    ('<unk>', 'be', 'to')
    """
    counts = Counter(words)
    frequent = [word for word, count in counts.items() if count >= least]
    return (UNKNOWN, *sorted(frequent, key=lambda word: (-counts[word], word)))


class Words:
    """A word-level tokenizer: every word is a token, ``<unk>`` stands for all others, and what is not a word is lost.

    >>> Words(("<unk>", "be", "to")).encode("To be, or")
    [2, 1, 0]
    >>> Words(("<unk>", "be", "to")).decode([2, 1, 0])
    'to be <unk>'
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.vocabulary = tuple(tokens)
        self._codes = {word: code for code, word in enumerate(self.vocabulary)}

    def encode(self, text: str) -> list[int]:
        unknown = self._codes[UNKNOWN]
        return [self._codes.get(word, unknown) for word in words_of(text)]

    def decode(self, codes: Iterable[int]) -> str:
        return " ".join(self.vocabulary[code] for code in codes)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "words", "vocabulary": list(self.vocabulary)}


def in_words(data: Dataset[Sequences], form: str) -> Dataset[Sequences]:
    """The text, whose tokens are characters so far, with words as its tokens.

    The vocabulary is that of the training split. Windows are as long, and overlap, as those of the characters.
    """
    least, length = read_form(data.name, form), data.sizes["length"]
    if set(map(len, data.vocabulary)) != {1}:
        raise UsageError(f"words are made of characters, which {data.name} does not give; leave out ':{form}'")
    parts = {name: getattr(data, name) for name in ("train", "valid", "test")}
    texts = {name: _text(part, data.vocabulary) for name, part in parts.items() if part is not None}
    tokenizer = Words(vocabulary(words_of(texts["train"]), least))
    if len(tokenizer.vocabulary) < 2:
        raise DataError(f"no word occurs {least} times in the training split of {data.name}; write :words=1")
    cut = {name: windows(torch.tensor(tokenizer.encode(text)), length) for name, text in texts.items()}
    return replace(
        data,
        name=f"{data.name}:{form}",
        train=cut["train"],
        valid=cut.get("valid"),
        test=cut.get("test"),
        sizes={**data.sizes, "vocab": len(tokenizer.vocabulary)},
        vocabulary=tokenizer.vocabulary,
        preprocessing={**data.preprocessing, "tokenizer": tokenizer.to_json()},
    )


def _text(part: Sequences, tokens: Sequence[str]) -> str:
    return "".join(tokens[number] for number in stream(part).tolist())
