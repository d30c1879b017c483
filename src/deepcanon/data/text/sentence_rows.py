"""Pairs of texts as pairs of sentences: both in one row, between special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from deepcanon.core import DataError, SentencePairs
from deepcanon.core.padding import check_lengths, full_lengths, valid_positions
from deepcanon.data.dataset import Dataset
from deepcanon.data.text.special import WithSpecialTokens, padded

LABELS = ("next", "other")
"""The classes of the second sentence: it follows the first, or it comes from elsewhere."""


def sentence_pairs(texts: Sequence[tuple[str, str, int]], tokenizer: WithSpecialTokens, length: int) -> SentencePairs:
    """Pairs of texts with their labels, in rows of ``length`` tokens.

    >>> from deepcanon.data.text.special import SpecialTokens
    >>> from deepcanon.data.text.words import Words
    >>> special = SpecialTokens.first("padding", "mask", "separator", "class_")
    >>> words = WithSpecialTokens(Words(("<unk>", "it", "rains", "we", "stay")), special)
    >>> pairs = sentence_pairs([("it rains", "we stay", 0)], words, 8)
    >>> pairs.x.tolist(), pairs.segments.tolist()
    ([[3, 5, 6, 2, 7, 8, 2, 0]], [[0, 0, 0, 0, 1, 1, 1, 0]])
    """
    special = tokenizer.special
    assert special.class_ is not None
    assert special.separator is not None
    rows, segments = [], []
    for first, second, _ in texts:
        before = [special.class_, *tokenizer.encode(first), special.separator]
        after = [*tokenizer.encode(second), special.separator]
        rows.append([*before, *after])
        segments.append([0] * len(before) + [1] * len(after))
    x, lengths = padded(rows, special.padding)
    parts, _ = padded(segments)
    if x.shape[1] > length:
        raise DataError(f"the longest pair has {x.shape[1]} tokens with its special ones; rows hold {length}")
    free = (0, length - x.shape[1])
    labels = torch.tensor([label for _, _, label in texts])
    return SentencePairs(pad(x, free, value=special.padding or 0), lengths, pad(parts, free), labels)


def sentence_pairs_from(
    x: Tensor, lengths: Tensor | None, segments: Tensor, y: Tensor | None, name: str, source: str
) -> Dataset[SentencePairs]:
    """A data set of pairs of sentences from tensors.

    The class token is the one that all rows begin with, the separator the one that they end with; the mask token, which
    no row holds, is one more than the largest token.
    """
    if x.ndim != 2 or x.is_floating_point():
        raise DataError(
            f"pairs of sentences x are whole numbers of the shape (N, T); got {x.dtype} of {tuple(x.shape)}"
        )
    if y is None or y.ndim != 1 or y.is_floating_point() or not bool(((y == 0) | (y == 1)).all()):
        raise DataError("pairs of sentences need labels y, (N,): 0 where the second follows the first, 1 elsewhere")
    lengths = full_lengths(x) if lengths is None else lengths
    check_lengths(x, lengths)
    pairs = SentencePairs(x, lengths, segments, y)
    inside = segments[valid_positions(x, lengths)]
    if inside.is_floating_point() or not bool(((inside == 0) | (inside == 1)).all()):
        raise DataError("segments are 0 up to the first separator and 1 after it, whole numbers; got others")
    first, last = x[:, 0], x.gather(1, lengths.unsqueeze(1) - 1).squeeze(1)
    for tokens, place in ((first, "begin with one class token"), (last, "end with one separator token")):
        if len(tokens.unique()) > 1:
            raise DataError(f"all rows {place}; got {', '.join(map(str, tokens.unique().tolist()[:4]))}")
    largest = int(x[valid_positions(x, lengths)].max())
    sizes: dict[str, Any] = {
        "vocab": largest + 2, "length": x.shape[1], "mask_token": largest + 1,
        "class_token": int(first[0]), "separator_token": int(last[0]),
    }  # fmt: skip
    shape = tuple(x.shape[1:])
    return Dataset(name=name, kind="sentences", train=pairs, sizes=sizes, shape=shape, labels=LABELS, source=source)
