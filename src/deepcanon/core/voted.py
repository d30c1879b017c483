"""Weakly supervised data: votes of labeling functions in place of labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deepcanon.core.batch import AnyBatch, Labeled
from deepcanon.core.errors import DataError

ABSTAINS = -1
"""The vote of a source that says nothing of an example."""


@dataclass(frozen=True, eq=False)
class Voted(Labeled):
    """Examples with the ``votes`` of several sources in place of labels.

    Votes, (B, sources), are classes, or -1 where a source abstains.
    The label ``y`` is the majority vote, so that any classifier learns from them; held-out examples have true labels.

    >>> Voted.of(torch.zeros(3, 2), torch.tensor([[0, 1, 1], [2, -1, -1], [1, 0, -1]])).y
    tensor([1, 2, 0])
    """

    noun = "examples with votes"
    votes: Tensor

    @classmethod
    def of(cls, x: Tensor, votes: Tensor) -> Voted:
        """Examples with these votes; those on which all sources abstain have no label and are refused."""
        if votes.ndim != 2 or len(votes) != len(x) or votes.is_floating_point():
            raise DataError(
                f"votes are classes, (examples, sources), for {len(x)} examples, or -1 where a source abstains; got "
                f"{votes.dtype} of the shape {tuple(votes.shape)}"
            )
        if silent := int((votes < 0).all(1).sum()):
            raise DataError(f"all sources abstain on {silent} of {len(x)} examples: leave these out")
        return cls(x, majority(votes), votes)

    @classmethod
    def held_out(cls) -> type[AnyBatch]:
        return Labeled


def majority(votes: Tensor) -> Tensor:
    """The class that most sources vote for, (B,); of several that are equal, the first.

    >>> majority(torch.tensor([[0, 2, 2, -1], [1, 0, -1, -1]]))
    tensor([2, 0])
    """
    classes = int(votes.max()) + 1
    return torch.stack([(votes == label).sum(1) for label in range(classes)], 1).argmax(1)
