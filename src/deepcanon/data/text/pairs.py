"""Pairs of texts as pairs of sequences: each side has a tokenizer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import Captioned, DataError, SequencePairs
from deepcanon.core.padding import check_lengths, full_lengths
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


def pairs_from(x: Tensor, lengths: Tensor | None, y: Tensor, y_lengths: Tensor, name: str, source: str) -> Dataset[Any]:
    """A data set of pairs from tensors: tokens ``x`` (N, S), or images (N, channels, height, width), and tokens ``y``.

    The begin and end tokens are those that all targets begin and end with.
    """
    lengths = full_lengths(x) if lengths is None else lengths
    if y.ndim != 2 or y.is_floating_point():
        raise DataError(f"targets y are whole numbers of the shape (N, T); got {y.dtype} of {tuple(y.shape)}")
    check_lengths(y, y_lengths)
    ends = {"begin_token": y[:, 0], "end_token": y.gather(1, y_lengths.unsqueeze(1) - 1).squeeze(1)}
    for token, there in ends.items():
        if len(there.unique()) > 1:
            place = "first" if token == "begin_token" else "last"
            raise DataError(
                f"the {place} token of every target is the same, the {token.replace('_', ' ')}; "
                f"got {', '.join(map(str, there.unique().tolist()[:4]))}"
            )
    known = {token: int(there[0]) for token, there in ends.items()}
    known["target_vocab"] = 1 + _largest(y, y_lengths)
    train: SequencePairs | Captioned
    if x.ndim == 4:
        train, sizes = Captioned(x, y, y_lengths), image_sizes(tuple(x.shape[1:]))
    else:
        check_lengths(x, lengths)
        train, sizes = SequencePairs(x, lengths, y, y_lengths), {"vocab": 1 + _largest(x, lengths)}
    return Dataset(
        name=name, kind="captions" if x.ndim == 4 else "pairs", train=train, sizes={**sizes, **known},
        shape=tuple(x.shape[1:]), source=source,
    )  # fmt: skip


def _largest(x: Tensor, lengths: Tensor) -> int:
    inside = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
    tokens = x[inside]
    if int(tokens.min()) < 0:
        raise DataError(f"tokens count from 0, got {int(tokens.min())}")
    return int(tokens.max())


def _wider(x: Tensor, size: int, tokenizer: WithSpecialTokens) -> Tensor:
    return torch.nn.functional.pad(x, (0, size - x.shape[1]), value=tokenizer.special.padding or 0)
