"""Entries of the data sets known by name: their facts, without loading them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from deepcanon.core.turn import B
from deepcanon.data.dataset import Dataset, Kind
from deepcanon.data.download import Remote


@dataclass(frozen=True)
class Entry:
    """The facts of a data set, and ``load``, which makes the data set from its entry.

    Every entry in a module of :mod:`deepcanon.data.sets` is a data set; it is registered nowhere else.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    sizes: Mapping[str, int]
    counts: tuple[int, ...]
    """The numbers of training, validation and test examples (nodes, pairs); empty if the Python version decides."""
    source: str
    load: Callable[[Entry], Dataset[Any]]
    labels: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    target_vocabulary: tuple[str, ...] = ()
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    remote: Remote = field(default_factory=Remote)
    splits: int = 1
    """How many published splits there are."""
    split: int = 0
    """Which of them is meant."""

    def dataset(self, train: B, valid: B, test: B | None) -> Dataset[B]:
        """The data set of these facts with these splits."""
        return Dataset(
            name=self.name,
            kind=self.kind,
            train=train,
            valid=valid,
            test=test,
            sizes=self.sizes,
            shape=self.shape,
            labels=self.labels,
            vocabulary=self.vocabulary,
            target_vocabulary=self.target_vocabulary,
            source=self.source,
            folder=self.remote.folder,
            preprocessing=self.preprocessing,
        )

    def drawn(self, make: Callable[[int, int, int], B], length: int) -> Dataset[B]:
        """The data set of sequences that ``make(count, length, seed)`` draws, each split with a seed of its own.

        It has the form ``length=N``: the same drawn anew in another length.
        """
        train, valid, test = (make(count, length, seed) for seed, count in enumerate(self.counts))
        return replace(
            self.dataset(train, valid, test),
            shape=(length, *self.shape[1:]),
            sizes={**self.sizes, "length": length},
            of_length=partial(self.drawn, make),
        )


def image_sizes(shape: tuple[int, ...], classes: int | None = None) -> dict[str, int]:
    """The sizes that images of shape (channels, height, width) give a model.

    >>> image_sizes((1, 8, 8), classes=10)
    {'features': 64, 'channels': 1, 'height': 8, 'width': 8, 'classes': 10}
    """
    channels, height, width = shape
    sizes = {"features": channels * height * width, "channels": channels, "height": height, "width": width}
    return sizes if classes is None else {**sizes, "classes": classes}
