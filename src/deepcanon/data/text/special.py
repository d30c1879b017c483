"""Special tokens: padding, begin, end, mask, separator and class, as the first tokens of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from deepcanon.core import UsageError

SIGNS = {
    "padding": "<pad>",
    "begin": "<begin>",
    "end": "<end>",
    "mask": "<mask>",
    "separator": "<sep>",
    "class_": "<class>",
}
"""How special tokens are shown in a vocabulary, and their order in it."""


@dataclass(frozen=True)
class SpecialTokens:
    """The ids of the special tokens of a vocabulary; None where it does not have one.

    They are the first tokens of the vocabulary, in the order of these fields. A model gets them as constructor
    arguments from the ``sizes`` of the data: ``begin_token``, ``end_token``, ``mask_token`` ... Which positions of a
    row are padding is never read off its tokens: its ``lengths`` say so, and the padding may hold anything.

    >>> SpecialTokens.first("begin", "end")
    SpecialTokens(padding=None, begin=0, end=1, mask=None, separator=None, class_=None)
    >>> SpecialTokens.of(("<pad>", "<end>", "a", "b")).sizes
    {'padding_token': 0, 'end_token': 1}
    """

    padding: int | None = None
    begin: int | None = None
    end: int | None = None
    mask: int | None = None
    separator: int | None = None
    class_: int | None = None

    @classmethod
    def first(cls, *names: str) -> Self:
        """The special tokens of a vocabulary that begins with these, whatever their order here."""
        unknown = sorted(set(names) - SIGNS.keys())
        if unknown:
            raise UsageError(f"special tokens are {', '.join(SIGNS)}; got {unknown[0]!r}")
        return cls(**{name: id for id, name in enumerate(name for name in SIGNS if name in names)})

    @classmethod
    def of(cls, vocabulary: Sequence[str]) -> Self:
        """The special tokens that a vocabulary begins with."""
        names = {sign: name for name, sign in SIGNS.items()}
        found = []
        for token in vocabulary:
            if token not in names:
                break
            found.append(names[token])
        return cls.first(*found)

    @property
    def ids(self) -> dict[str, int]:
        """The ids of those that are there, by name."""
        return {name: id for name, id in asdict(self).items() if id is not None}

    @property
    def sizes(self) -> dict[str, int]:
        """The ids as constructor arguments of a model."""
        return {f"{name.rstrip('_')}_token": id for name, id in self.ids.items()}

    @property
    def signs(self) -> tuple[str, ...]:
        """The special tokens as they are shown: the beginning of the vocabulary."""
        return tuple(SIGNS[name] for name in self.ids)


class Plain(Protocol):
    """A tokenizer without special tokens."""

    @property
    def vocabulary(self) -> tuple[str, ...]: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, codes: Iterable[int]) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


class WithSpecialTokens:
    """A tokenizer with special tokens before its own ones; text never encodes to them, and they decode to nothing.

    >>> from deepcanon.data.text.tokenizers import Characters
    >>> tokenizer = WithSpecialTokens(Characters("abc"), SpecialTokens.first("padding", "begin", "end"))
    >>> tokenizer.vocabulary
    ('<pad>', '<begin>', '<end>', 'a', 'b', 'c')
    >>> tokenizer.encode("cab"), tokenizer.row("cab"), tokenizer.decode([1, 5, 3, 4, 2, 0])
    ([5, 3, 4], [1, 5, 3, 4, 2], 'cab')
    """

    def __init__(self, tokenizer: Plain, special: SpecialTokens) -> None:
        self.tokenizer, self.special = tokenizer, special
        self._count = len(special.ids)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return (*self.special.signs, *self.tokenizer.vocabulary)

    def encode(self, text: str) -> list[int]:
        """The tokens of the text alone."""
        return [code + self._count for code in self.tokenizer.encode(text)]

    def row(self, text: str) -> list[int]:
        """The tokens of the text, with begin and end tokens where there are any."""
        begin, end = ([] if id is None else [id] for id in (self.special.begin, self.special.end))
        return [*begin, *self.encode(text), *end]

    def decode(self, codes: Iterable[int]) -> str:
        return self.tokenizer.decode(code - self._count for code in codes if code >= self._count)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "special", "special": list(self.special.ids), "tokenizer": self.tokenizer.to_json()}


def padded(rows: Sequence[Sequence[int]], padding: int | None = None) -> tuple[Tensor, Tensor]:
    """Rows of tokens right-padded to one length, (B, T), and their lengths, (B,); without a padding token by zeros.

    >>> padded([[3, 4], [5]])
    (tensor([[3, 4],
            [5, 0]]), tensor([2, 1]))
    """
    lengths = torch.tensor([len(row) for row in rows])
    x = torch.full((len(rows), int(lengths.max())), padding or 0)
    x[torch.arange(x.shape[1]) < lengths.unsqueeze(1)] = torch.tensor([*chain.from_iterable(rows)], dtype=torch.long)
    return x, lengths
