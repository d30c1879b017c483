"""Tokenizers of text into characters, bytes, words or subwords; their vocabulary is saved as plain JSON."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from deepcanon.core import UsageError
from deepcanon.data.text.bpe import BPE
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens
from deepcanon.data.text.words import UNKNOWN, Words


class Tokenizer(Protocol):
    """A tokenizer: text as token ids and back; ``vocabulary`` shows the tokens by their ids."""

    @property
    def vocabulary(self) -> tuple[str, ...]: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, codes: Iterable[int]) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


class Characters:
    """A character-level tokenizer: every character of an alphabet is a token; ``<unk>``, if it is one, is all others.

    >>> Characters("abc").encode("cab"), Characters(("<unk>", "a")).encode("cab")
    ([2, 0, 1], [0, 1, 0])
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.vocabulary = tuple(tokens)
        self._codes = {token: code for code, token in enumerate(self.vocabulary)}

    def encode(self, text: str) -> list[int]:
        other = self._codes.get(UNKNOWN)
        if other is not None:
            return [self._codes.get(token, other) for token in text]
        unknown = sorted(set(text) - self._codes.keys())
        if unknown:
            raise UsageError(f"{unknown[0]!r} is not in the vocabulary; its tokens are {''.join(self.vocabulary)!r}")
        return [self._codes[token] for token in text]

    def decode(self, codes: Iterable[int]) -> str:
        return "".join(self.vocabulary[code] for code in codes)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "characters", "vocabulary": list(self.vocabulary)}


class Bytes:
    """A byte-level tokenizer: every byte of the text in UTF-8 is a token, so that no text has an unknown one.

    >>> Bytes().encode("né")
    [110, 195, 169]
    >>> Bytes().decode([110, 195, 169])
    'né'
    """

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return tuple(chr(code) if code < 128 else f"\\x{code:x}" for code in range(256))

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, codes: Iterable[int]) -> str:
        """The text; bytes that are not valid UTF-8, as a model may generate them, become the replacement character."""
        return bytes(codes).decode(errors="replace")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "bytes"}


class WithSentinels:
    """A tokenizer with sentinels, ``<1>``, ``<2>`` ..., after its own tokens; each stands for a span of text.

    >>> WithSentinels(Characters("abc"), 2).encode("a<2>b"), WithSentinels(Characters("abc"), 2).decode([3, 0, 1])
    ([0, 4, 1], '<1>ab')
    """

    def __init__(self, tokenizer: Tokenizer, count: int) -> None:
        self.tokenizer, self.count = tokenizer, count
        self.vocabulary = (*tokenizer.vocabulary, *(f"<{number}>" for number in range(1, count + 1)))
        self._codes = {sign: code for code, sign in enumerate(self.vocabulary) if code >= self._first}

    @property
    def _first(self) -> int:
        return len(self.tokenizer.vocabulary)

    def encode(self, text: str) -> list[int]:
        parts = re.split(r"(<\d+>)", text)
        return [
            code
            for part in parts
            for code in ([self._codes[part]] if part in self._codes else self.tokenizer.encode(part))
        ]

    def decode(self, codes: Iterable[int]) -> str:
        runs = itertools.groupby(codes, lambda code: code >= self._first)
        return "".join(
            "".join(self.vocabulary[code] for code in run) if sentinels else self.tokenizer.decode(run)
            for sentinels, run in runs
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "sentinels", "count": self.count, "tokenizer": self.tokenizer.to_json()}


def tokenizer_of(tokens: Sequence[str], preprocessing: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a data set: the one that its preprocessing describes, or else its characters.

    >>> tokenizer_of("ab", {}).encode("ba"), tokenizer_of("", {"tokenizer": {"kind": "bytes"}}).encode("a")
    ([1, 0], [97])
    """
    saved = preprocessing.get("tokenizer")
    if saved is None:
        return Characters(tokens)
    if saved["kind"] == "special":
        return WithSpecialTokens(tokenizer_of((), saved), SpecialTokens.first(*saved["special"]))
    if saved["kind"] == "sentinels":
        return WithSentinels(tokenizer_of((), saved), saved["count"])
    if saved["kind"] == "bpe":
        return BPE(saved["tokens"], [(left, right) for left, right in saved["merges"]])
    if saved["kind"] == "bytes":
        return Bytes()
    return (Words if saved["kind"] == "words" else Characters)(saved["vocabulary"])
