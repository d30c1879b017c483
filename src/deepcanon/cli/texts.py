"""Text as numbers and back, by the tokeniser of a run's data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.data.tokenisers import Tokeniser, tokeniser_of


def tokeniser(info: Mapping[str, Any]) -> Tokeniser:
    """The tokeniser by which the data of a run, as ``run.json`` describes them, were read."""
    if not info["symbols"]:
        raise UsageError("the data of this run are no text, so there is nothing to generate")
    return tokeniser_of(info["symbols"], info["preprocessing"])


def encode(text: str, info: Mapping[str, Any]) -> Tensor:
    """The numbers of the text's symbols, as a batch of one.

    >>> encode("ba", {"symbols": "abc", "preprocessing": {}})
    tensor([[1, 0]])
    """
    codes = tokeniser(info).encode(text)
    if not codes:
        raise UsageError("a prompt needs at least one symbol that the model can read: give one by --prompt")
    return torch.tensor([codes])


def encode_one(text: str | None, info: Mapping[str, Any]) -> int | None:
    """The number of a text that is one symbol; None of no text.

    >>> encode_one("c", {"symbols": "abc", "preprocessing": {}})
    2
    """
    if text is None:
        return None
    codes = tokeniser(info).encode(text)
    if len(codes) != 1:
        raise UsageError(f"generation stops at one symbol; {text!r} is {len(codes)} of them")
    return codes[0]


def decode(tokens: Tensor, info: Mapping[str, Any]) -> str:
    """The text behind a row of numbers.

    >>> decode(torch.tensor([[1, 0]]), {"symbols": "abc", "preprocessing": {}})
    'ba'
    """
    return tokeniser(info).decode(tokens.flatten().tolist())
