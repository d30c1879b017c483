"""Text as token ids and back, by the tokenizer of a run's data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.data.text.special import WithSpecialTokens
from deepcanon.data.text.tokenizers import Tokenizer, tokenizer_of


def tokenizer(info: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer by which the data of a run, as ``run.json`` describes them, were read."""
    if not info["vocabulary"]:
        raise UsageError("the data of this run are not text, so there is nothing to generate")
    return tokenizer_of(info["vocabulary"], info["preprocessing"])


def targets(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """The targets of a run's pairs, or its captions, described as the data of a text are."""
    if not info.get("target_vocabulary"):
        raise UsageError("the data of this run are not pairs of texts, nor captions, so no text can be written")
    tokenizer = info["preprocessing"].get("target_tokenizer")
    return {"vocabulary": info["target_vocabulary"], "preprocessing": {"tokenizer": tokenizer}}


def encode(text: str | None, info: Mapping[str, Any]) -> Tensor:
    """The numbers of the text's tokens after the begin token, if there is one, as a batch of one.

    Without a text they are those that a text begins after: the begin token, or else the end of a line.

    >>> encode("ba", {"vocabulary": "abc", "preprocessing": {}})
    tensor([[1, 0]])
    """
    by = tokenizer(info)
    begin = by.special.begin if isinstance(by, WithSpecialTokens) else None
    codes = [] if begin is None else [begin]
    codes += by.encode(("\n" if begin is None else "") if text is None else text)
    if not codes:
        raise UsageError("a prompt needs at least one token that the model can read: give one by --prompt")
    return torch.tensor([codes])


def encode_stop(text: str | None, info: Mapping[str, Any]) -> int | None:
    """The token at which generation stops: a text that is one token, or without it the end token, if there is one.

    >>> encode_stop("c", {"vocabulary": "abc", "preprocessing": {}})
    2
    """
    by = tokenizer(info)
    if text is None:
        return by.special.end if isinstance(by, WithSpecialTokens) else None
    codes = by.encode(text)
    if len(codes) != 1:
        raise UsageError(f"generation stops at one token; {text!r} is {len(codes)} of them")
    return codes[0]


def decode(tokens: Tensor, info: Mapping[str, Any]) -> str:
    """The text of a row of token ids.

    >>> decode(torch.tensor([[1, 0]]), {"vocabulary": "abc", "preprocessing": {}})
    'ba'
    """
    return tokenizer(info).decode(tokens.flatten().tolist())
