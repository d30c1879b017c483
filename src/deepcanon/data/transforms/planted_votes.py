"""Weakly supervised data: the training labels replaced by the votes of labeling functions, ``digits:votes=6``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from deepcanon.core import DataError, Labeled, SemiBatch, UsageError, Voted
from deepcanon.data.dataset import Dataset

MARK = "votes="
"""The beginning of the suffix of the form."""
LEAST = 4
"""Fewer sources do not show how good each is and who copies whom."""
ABSTAINING = 0.3
WORST, BEST = 0.4, 0.85
"""The share of examples on which a source abstains, and the shares of right votes of the worst and the best source."""
COPIED = 0.9
"""How often the second source copies the vote of the first, which is the worst."""


def read_form(name: str, form: str) -> tuple[int, int]:
    """The number of sources and the seed that a form asks for.

    >>> read_form("digits", "votes=6"), read_form("digits", "votes=6,seed=3")
    ((6, 0), (6, 3))
    """
    found = re.fullmatch(rf"{MARK}(\d+)(?:,seed=(\d+))?", form)
    if found is None:
        raise UsageError(f"votes are written {name}:votes=6 or {name}:votes=6,seed=1; got {name}:{form}")
    if int(found[1]) < LEAST:
        raise UsageError(f"votes are of at least {LEAST} sources; got {name}:{form}")
    return int(found[1]), int(found[2] or 0)


def planted_votes(data: Dataset[Any], form: str) -> Dataset[Voted]:
    """The data with votes of sources of known quality in place of the training labels.

    The sources' shares of right votes rise evenly from the worst to the best, a wrong vote is for any other class, and
    each abstains on some examples. The second source copies the first, which is the worst, nine times of ten. Examples
    on which all abstain are left out. Validation and test splits keep their labels.
    """
    count, seed = read_form(data.name, form)
    data = data.with_validation_split(seed=0)
    train = data.train
    if not train.is_a(Labeled) or isinstance(train, SemiBatch) or train.y.is_floating_point():
        raise DataError(f"votes are for classes, which {data.name} does not give")
    votes = drawn(train.y, data.sizes["classes"], count, torch.Generator().manual_seed(seed))
    heard = (votes >= 0).any(1)
    before = data.preprocessing.get("form")
    return replace(
        data,
        name=f"{data.name}:{form}",
        train=Voted.of(train.x[heard], votes[heard]),
        sizes={**data.sizes, "sources": count},
        preprocessing={**data.preprocessing, "form": f"{before}:{form}" if before else form},
    )


def drawn(y: Tensor, classes: int, count: int, random: Generator) -> Tensor:
    """The votes of so many sources on examples with these labels, (B, sources)."""
    shape = (len(y), count)
    right = torch.rand(shape, generator=random) < torch.linspace(WORST, BEST, count)
    wrong = (y.unsqueeze(1) + torch.randint(1, classes, shape, generator=random)) % classes
    votes = torch.where(right, y.unsqueeze(1), wrong)
    votes = votes.masked_fill(torch.rand(shape, generator=random) < ABSTAINING, -1)
    copied = torch.rand(len(y), generator=random) < COPIED
    votes[:, 1] = torch.where(copied, votes[:, 0], votes[:, 1])
    return votes
