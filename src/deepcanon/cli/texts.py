"""Text as numbers and back, by the alphabet of a run's data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deepcanon.core import UsageError


def encode(text: str, symbols: Sequence[str]) -> Tensor:
    """The places of the symbols in the alphabet, as a batch of one.

    >>> encode("ba", "abc")
    tensor([[1, 0]])
    """
    if not symbols:
        raise UsageError("the data of this run are no text, so there is nothing to generate")
    unknown = sorted(set(text) - set(symbols))
    if unknown:
        raise UsageError(f"the model does not know {unknown[0]!r}; its symbols are {''.join(symbols)!r}")
    if not text:
        raise UsageError("a prompt needs at least one symbol")
    return torch.tensor([[symbols.index(symbol) for symbol in text]])


def decode(tokens: Tensor, symbols: Sequence[str]) -> str:
    """The text behind a row of numbers.

    >>> decode(torch.tensor([[1, 0]]), "abc")
    'ba'
    """
    return "".join(symbols[token] for token in tokens.flatten().tolist())
