"""Tokenisers: text as whole numbers and back, by characters, bytes or words; what they know is plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from deepcanon.core import UsageError
from deepcanon.data.bpe import BPE
from deepcanon.data.words import Words


class Tokeniser(Protocol):
    """Text as the numbers of symbols; ``symbols`` shows each of them, whatever it stands for."""

    @property
    def symbols(self) -> tuple[str, ...]: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, codes: Iterable[int]) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


class Characters:
    """Every character of an alphabet is a symbol.

    >>> Characters("abc").encode("cab")
    [2, 0, 1]
    """

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = tuple(symbols)
        self._codes = {symbol: code for code, symbol in enumerate(self.symbols)}

    def encode(self, text: str) -> list[int]:
        unknown = sorted(set(text) - self._codes.keys())
        if unknown:
            raise UsageError(f"the model does not know {unknown[0]!r}; its symbols are {''.join(self.symbols)!r}")
        return [self._codes[symbol] for symbol in text]

    def decode(self, codes: Iterable[int]) -> str:
        return "".join(self.symbols[code] for code in codes)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "characters", "symbols": list(self.symbols)}


class Bytes:
    """Every byte of the text in UTF-8 is a symbol, so that there is no text it does not know.

    >>> Bytes().encode("né")
    [110, 195, 169]
    >>> Bytes().decode([110, 195, 169])
    'né'
    """

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(chr(code) if code < 128 else f"\\x{code:x}" for code in range(256))

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, codes: Iterable[int]) -> str:
        """The text; bytes that are no UTF-8, as a model may make them up, become the sign for what is unknown."""
        return bytes(codes).decode(errors="replace")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "bytes"}


def tokeniser_of(symbols: Sequence[str], preprocessing: Mapping[str, Any]) -> Tokeniser:
    """The tokeniser by which data were read: the one that their preprocessing describes, or else their characters.

    >>> tokeniser_of("ab", {}).encode("ba"), tokeniser_of("", {"tokeniser": {"kind": "bytes"}}).encode("a")
    ([1, 0], [97])
    """
    saved = preprocessing.get("tokeniser")
    if saved is None:
        return Characters(symbols)
    if saved["kind"] == "bpe":
        return BPE(saved["tokens"], [(left, right) for left, right in saved["merges"]])
    if saved["kind"] == "bytes":
        return Bytes()
    return (Words if saved["kind"] == "words" else Characters)(saved["symbols"])
