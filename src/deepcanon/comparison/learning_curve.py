"""The learning curve: the same models trained on nested parts of the training split, and what more examples gain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import torch

from deepcanon.comparison.differences import Measure, differences
from deepcanon.comparison.record import Entry, Gain
from deepcanon.core import AnyBatch, GraphBatch, SemiBatch, Stream, TwoDomains, UsageError
from deepcanon.data import Dataset
from deepcanon.data.split import stratified_order

HALVINGS = 4
"""The parts are a half, a quarter ... of the training split, so many of them, as far as they are large enough."""
FEWEST = 10
RANKING: tuple[Measure, ...] = tuple(name for name in get_args(Measure) if name not in ("accuracy", "cost"))
"""The measures that may rank models."""

B = TypeVar("B", bound=AnyBatch)


def check_parts(data: Dataset[Any]) -> None:
    """Refuse data whose training examples cannot be taken one by one, or are too few to be halved."""
    if isinstance(data.train, GraphBatch | SemiBatch | TwoDomains):
        raise UsageError(
            f"a learning curve needs examples of which some can be left out; {data.name} gives {data.train.noun}"
        )
    if not sizes_of(data.train):
        raise UsageError(
            f"a learning curve needs at least {2 * FEWEST} training examples; {data.name} has {len(data.train)}"
        )


def sizes_of(train: AnyBatch) -> list[int]:
    """The numbers of examples of the parts, from the smallest on; the whole is not among them.

    >>> from deepcanon.core import Batch
    >>> sizes_of(Batch(torch.zeros(700, 1))), sizes_of(Batch(torch.zeros(50, 1)))
    ([43, 87, 175, 350], [12, 25])
    """
    counts = [len(train) >> power for power in range(HALVINGS, 0, -1)]
    return [count for count in counts if count >= FEWEST]


def part_of(train: B, count: int) -> B:
    """So many of the training examples: always the same, every class in its share, and each part inside the next.

    Consecutive windows of one text are taken from its beginning on.
    """
    labels = train.labels
    if isinstance(train, Stream):
        order = np.arange(len(train))
    elif labels is not None and not labels.is_floating_point() and labels.shape == (len(train),):
        order = stratified_order(labels.cpu().numpy(), seed=0)
    else:
        order = stratified_order(np.zeros(len(train), dtype=np.int64), seed=0)
    return train.part(torch.from_numpy(np.sort(order[:count])).to(train.device))


def gains(runs: Sequence[Entry], curve: Sequence[Entry], count: int, out: Path) -> list[Gain]:
    """The differences of each model with all ``count`` training examples from the same with fewer."""
    found: list[Gain] = []
    for examples in dict.fromkeys(entry["examples"] for entry in curve):
        for label in dict.fromkeys(entry["label"] for entry in curve):
            fewer = _folders([entry for entry in curve if entry["examples"] == examples], label, out)
            whole = _folders(runs, label, out)
            form = next(entry["form"] for entry in curve if entry["label"] == label)
            if not fewer or not whole or examples is None:
                continue
            found += [
                Gain(label=label, examples=examples, all=count, difference=difference)
                for difference in differences(form, {"all": whole, "fewer": fewer}, RANKING)
            ]
    return found


def _folders(entries: Sequence[Entry], label: str, out: Path) -> dict[int, Path]:
    return {
        entry["seed"]: out / entry["run"]
        for entry in entries
        if entry["label"] == label and entry["measured"] is not None and entry["measured"]["examples"]
    }
