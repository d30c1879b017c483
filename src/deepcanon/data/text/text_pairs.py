"""Pairs of texts as pairs of sequences: each side has a tokenizer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import Captioned, DataError, SequencePairs, UsageError
from deepcanon.core.padding import check_lengths, full_lengths, valid_positions
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens, padded
from deepcanon.data.text.tokenizers import Characters


def character_tokenizer(alphabet: str, *special: str) -> WithSpecialTokens:
    """A tokenizer of characters with these special tokens."""
    return WithSpecialTokens(Characters(tuple(alphabet)), SpecialTokens.first(*special))


def sequence_pairs(
    texts: Sequence[tuple[str, str]], source: WithSpecialTokens, target: WithSpecialTokens, size: tuple[int, int]
) -> SequencePairs:
    """Pairs of texts in tokens, targets between begin and end tokens, padded to ``size`` positions on each side.

    >>> letters = character_tokenizer("ab", "padding", "begin", "end")
    >>> pairs = sequence_pairs([("a", "ba")], character_tokenizer("ab", "padding"), letters, (2, 5))
    >>> pairs.x.tolist(), pairs.y.tolist(), pairs.lengths.tolist(), pairs.y_lengths.tolist()
    ([[1, 0]], [[1, 4, 3, 2, 0]], [1], [4])
    """
    x, lengths = padded([source.row(text) for text, _ in texts], source.special.padding)
    y, y_lengths = padded([target.row(text) for _, text in texts], target.special.padding)
    return SequencePairs(_wider(x, size[0], source), lengths, _wider(y, size[1], target), y_lengths)


def captioned(x: Tensor, texts: Sequence[str], target: WithSpecialTokens, size: int) -> Captioned:
    """Images with captions in tokens between begin and end tokens, padded to ``size`` positions.

    >>> letters = character_tokenizer("ab", "padding", "begin", "end")
    >>> captioned(torch.zeros(2, 1, 8, 8), ["ba", "a"], letters, 5).y.tolist()
    [[1, 4, 3, 2, 0], [1, 3, 2, 0, 0]]
    """
    y, y_lengths = padded([target.row(text) for text in texts], target.special.padding)
    return Captioned(x, _wider(y, size, target), y_lengths)


def pairs_from(
    x: Tensor, lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor, name: str, source: str
) -> Dataset[Any]:
    """A data set of pairs from tensors: tokens ``x`` (N, S), or images (N, channels, height, width), and tokens ``y``.

    The begin and end tokens are those that all targets begin and end with.
    """
    if y is None or y.ndim != 2 or y.is_floating_point():
        found = "none" if y is None else f"{y.dtype} of {tuple(y.shape)}"
        raise DataError(f"target sequences y are whole numbers of the shape (N, T); got {found}")
    check_lengths(y, y_lengths)
    last = y.gather(1, y_lengths.unsqueeze(1) - 1).squeeze(1)
    targets = {"begin_token": _common(y[:, 0], "first"), "end_token": _common(last, "last")}
    targets["target_vocab"] = 1 + _largest(y, y_lengths, "y")
    if x.ndim == 4:
        if lengths is not None:
            raise UsageError("images have no lengths: leave them out, or give sequences of tokens x, (N, S)")
        images = Captioned(x.float(), y, y_lengths)
        sizes = {**image_sizes(tuple(x.shape[1:])), **targets}
        return Dataset(name=name, kind="captions", train=images, sizes=sizes, shape=tuple(x.shape[1:]), source=source)
    if x.ndim != 2 or x.is_floating_point():
        raise DataError(f"source sequences x are whole numbers of the shape (N, S); got {x.dtype} of {tuple(x.shape)}")
    lengths = full_lengths(x) if lengths is None else lengths
    check_lengths(x, lengths)
    pairs = SequencePairs(x, lengths, y, y_lengths)
    sizes = {"vocab": 1 + _largest(x, lengths, "x"), **targets}
    return Dataset(name=name, kind="pairs", train=pairs, sizes=sizes, shape=tuple(x.shape[1:]), source=source)


def _common(tokens: Tensor, place: str) -> int:
    found = tokens.unique().tolist()
    if len(found) > 1:
        shown = ", ".join(map(str, found[:4]))
        raise DataError(f"the {place} token of all targets is the same, as begin and end tokens are; got {shown}")
    return int(found[0])


def _largest(x: Tensor, lengths: Tensor, name: str) -> int:
    tokens = x[valid_positions(x, lengths)]
    if int(tokens.min()) < 0:
        raise DataError(f"the tokens of {name} count from 0, got {int(tokens.min())}")
    return int(tokens.max())


def _wider(x: Tensor, size: int, tokenizer: WithSpecialTokens) -> Tensor:
    return torch.nn.functional.pad(x, (0, size - x.shape[1]), value=tokenizer.special.padding or 0)
