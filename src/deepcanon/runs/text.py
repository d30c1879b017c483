"""Text as token ids and back, by the tokenizer of a run's data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.data.text.tokenizers import Tokenizer, tokenizer_of


def tokenizer(info: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer by which the data of a run, as ``run.json`` describes them, were read."""
    if not info["vocabulary"]:
        raise UsageError("the data of this run are not text, so there is nothing to generate")
    return tokenizer_of(info["vocabulary"], info["preprocessing"])


def tokenizers(info: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the sources and of the targets of a run's pairs."""
    if not info["vocabulary"] or not info.get("target_vocabulary"):
        raise UsageError("the data of this run are not pairs of texts, so there is no text to translate")
    target = {"tokenizer": info["preprocessing"].get("target_tokenizer")}
    return tokenizer(info), tokenizer_of(info["target_vocabulary"], target)


def encode(text: str, info: Mapping[str, Any]) -> Tensor:
    """The numbers of the text's tokens, as a batch of one.

    >>> encode("ba", {"vocabulary": "abc", "preprocessing": {}})
    tensor([[1, 0]])
    """
    codes = tokenizer(info).encode(text)
    if not codes:
        raise UsageError("a prompt needs at least one token that the model can read: give one by --prompt")
    return torch.tensor([codes])


def encode_one(text: str | None, info: Mapping[str, Any]) -> int | None:
    """The number of a text that is one token; None of no text.

    >>> encode_one("c", {"vocabulary": "abc", "preprocessing": {}})
    2
    """
    if text is None:
        return None
    codes = tokenizer(info).encode(text)
    if len(codes) != 1:
        raise UsageError(f"generation stops at one token; {text!r} is {len(codes)} of them")
    return codes[0]


def decode(tokens: Tensor, info: Mapping[str, Any]) -> str:
    """The text of a row of token ids.

    >>> decode(torch.tensor([[1, 0]]), {"vocabulary": "abc", "preprocessing": {}})
    'ba'
    """
    return tokenizer(info).decode(tokens.flatten().tolist())
