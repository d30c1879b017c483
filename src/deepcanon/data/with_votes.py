"""Data with the votes of labeling functions in place of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import index
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import DataError, Labeled, Voted
from deepcanon.core.voted import ABSTAINS
from deepcanon.data.dataset import Dataset


def with_votes(data: Dataset[Any], votes: Tensor) -> Dataset[Voted]:
    """The data with these votes in place of training labels, (examples, sources); -1 is that of one that abstains."""
    if isinstance(data.train, Labeled):
        raise DataError("votes stand in place of y; give one of them")
    train = Voted.of(data.train.x, votes.long())
    classes = int(votes.max()) + 1
    sizes = {**data.sizes, "classes": classes, "sources": votes.shape[1]}
    return replace(data, train=train, sizes=sizes, labels=tuple(map(str, range(classes))))


def votes_by(functions: Sequence[Callable[[Any], int | None]], examples: Iterable[Any]) -> Tensor:
    """The votes of labeling functions, (examples, functions): each gives the class of an example, or None to abstain.

    >>> votes_by([lambda x: int(x[0] > 0), lambda x: 1 if x[1] > 5 else None], [(1, 9), (-1, 0)])
    tensor([[ 1,  1],
            [ 0, -1]])
    """
    return torch.tensor([[_vote(function, example) for function in functions] for example in examples])


def _vote(function: Callable[[Any], int | None], example: Any) -> int:
    vote = function(example)
    try:
        return ABSTAINS if vote is None else index(vote)
    except TypeError:
        name = getattr(function, "__name__", repr(function))
        raise DataError(f"a labeling function gives a class, a whole number, or None; {name} gave {vote!r}") from None
