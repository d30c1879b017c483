"""Data sets: their splits, their sizes, and the preprocessing that new rows need."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Literal, Self

import torch
from torch import Generator, Tensor

from deepcanon.core import AnyBatch, Graph, GraphBatch, LabeledPairs, UsageError
from deepcanon.core.display import Shown, notebook, table
from deepcanon.core.plural import counted
from deepcanon.core.sketch import batch_sketch, class_bars
from deepcanon.core.turn import B
from deepcanon.data.images.image_files import ImageFiles

Kind = Literal[
    "images", "points", "table", "text", "graph", "graphs", "sequences", "domains", "series", "videos", "pairs",
    "captions", "sentences", "ratings", "waveforms",
]  # fmt: skip

GIVES: Mapping[Kind, str] = {
    "images": "images",
    "points": "points",
    "table": "rows of a table",
    "text": "text",
    "graph": "a graph",
    "graphs": "many graphs",
    "sequences": "labeled sequences",
    "domains": "two domains",
    "series": "time series",
    "videos": "videos",
    "pairs": "pairs of sequences",
    "captions": "captioned images",
    "sentences": "pairs of sentences",
    "ratings": "ratings",
    "waveforms": "waveforms as tokens",
}
"""What data of a kind give, in words."""


COUNTED = {
    "features": "feature", "vocab": "token", "target_vocab": "target token", "nodes": "node", "targets": "target",
    "classes": "class",
}  # fmt: skip
"""The sizes that are said of data, and what they count."""


@dataclass(frozen=True, eq=False)
class Dataset(Shown, Generic[B]):
    """A data set: each split is one batch of all its examples; a mini-batch is an index select of it.

    ``sizes`` are the constructor arguments that follow from the data. ``shape`` is that of one example. ``source`` says
    where the data come from, ``folder`` in which sub-folder of the data folder they are stored. ``preprocessing`` is
    what was fitted on the training split, as JSON, so that new rows are preprocessed alike.
    """

    name: str
    kind: Kind
    train: B
    valid: B | None = None
    test: B | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    """The names of the classes."""
    vocabulary: tuple[str, ...] = ()
    """The tokens of a text (characters, bytes, words or subwords) by their ids; of pairs, those of the source."""
    target_vocabulary: tuple[str, ...] = ()
    """The tokens of the targets of pairs, or of captions, by their ids."""
    source: str = ""
    folder: str | None = None
    target: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    """The options by which a file was read, so that it is read alike again."""
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    """What was decided when a file was read, a sentence each, to be shown before a training."""
    fresh: Callable[[B, Generator], B] | None = None
    """A fresh random form of a training batch, drawn at every step: new noise of dequantized images, for instance."""
    of_length: Callable[[int], Dataset[B]] | None = None
    """The same data drawn anew in sequences of another length."""

    def _facts(self) -> dict[str, Any]:
        splits = {name: getattr(self, name) for name in ("train", "valid", "test")}
        counts = {name: len(part) for name, part in splits.items() if part is not None}
        named = {"labels": self.labels, "target": self.target, "source": self.source}
        about = {"name": self.name, "kind": self.kind, "shape": self.shape, **counts, "sizes": dict(self.sizes)}
        return {**about, **{name: value for name, value in named.items() if value}}

    def _repr_html_(self) -> str:
        about = {name: value for name, value in self._facts().items() if name != "name"}
        named = [column["name"] for column in self.preprocessing.get("columns", ()) if "name" in column]
        columns = [("columns", named)] if named else []
        classes = "" if self.labels == () else class_bars(self.train.labels, self.labels)
        return notebook(
            self.name, table([], [*about.items(), *columns]), classes, batch_sketch(self.train, self.labels)
        )

    @property
    def model_sizes(self) -> dict[str, int]:
        """The sizes that a model is built with: those of an example, and the number of training examples."""
        return {**self.sizes, "examples": len(self.train)}

    @property
    def says(self) -> str:
        """What the data are, in a sentence: their kind, their sizes, their target, and how many each split has.

        >>> from deepcanon.core import Batch
        >>> Dataset("a.csv", "table", Batch(torch.zeros(5, 2)), sizes={"features": 2}).says
        'a.csv gives rows of a table (2 features): 5 to train.'
        """
        tasks = {"train": "train", "valid": "validate", "test": "test"}
        there = {task: part for name, task in tasks.items() if (part := getattr(self, name)) is not None}
        splits = [f"{_counted(part)} to {task}" for task, part in there.items()]
        about = [counted(self.sizes[size], noun, ",", "classes" if noun == "class" else None)
                 for size, noun in COUNTED.items() if size in self.sizes]  # fmt: skip
        if self.kind == "images":
            about[0] = f"{'x'.join(map(str, self.shape))} values"
        about += [f"target {self.target!r}"] if self.target else []
        return f"{self.name} gives {GIVES[self.kind]} ({', '.join(about)}): {', '.join(splits)}."

    def split(self, name: str) -> B:
        """The split of this name, or an error that says which there are."""
        batch: B | None = getattr(self, name, None) if name in ("train", "valid", "test") else None
        if batch is None:
            there = [split for split in ("train", "valid", "test") if getattr(self, split) is not None]
            raise UsageError(f"{self.name} has no {name!r} split; it has {', '.join(there)}")
        return batch

    def to(self, device: torch.device | str) -> Self:
        valid, test = (None if part is None else part.to(device) for part in (self.valid, self.test))
        return replace(self, train=self.train.to(device), valid=valid, test=test)

    def with_validation_split(self, seed: int, share: float = 0.1) -> Self:
        """The same data with a validation split, held out from the training split by ``seed`` if missing.

        It is taken at random; of time series it is their last steps.
        """
        if self.valid is not None or len(self.train) < 2:
            return self
        train, valid = self.train.hold_out(share, torch.Generator().manual_seed(seed))
        return replace(self, train=train, valid=valid)

    def fingerprint(self) -> str:
        """The SHA-256 of the training data, by which a run recognizes them."""
        if isinstance(self.train, ImageFiles):
            return self.train.digest().hex()
        digest = hashlib.sha256()
        for tensor in _tensors(self.train):
            digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()


class Batches(Shown, Generic[B]):
    """A split in consecutive batches, which can be gone through more than once.

    >>> from deepcanon.core import Batch
    >>> [len(batch) for batch in Batches(Batch(torch.zeros(5, 1)), 2)]
    [2, 2, 1]
    """

    def __init__(self, split: B, size: int) -> None:
        self.split = split
        self.size = size

    def _facts(self) -> dict[str, Any]:
        return {"split": self.split, "size": self.size}

    def __iter__(self) -> Iterator[B]:
        rows, device = len(self.split), self.split.device
        for start in range(0, rows, self.size):
            yield self.split.select(torch.arange(start, min(start + self.size, rows), device=device))


def _counted(part: AnyBatch) -> str:
    """How many examples a split has; of a graph, how many nodes or pairs with a label."""
    if isinstance(part, GraphBatch):
        return counted(len(part.counted), "node", ",")
    return counted(part.weight, "pair", ",") if isinstance(part, LabeledPairs) else f"{len(part):,}"


def _tensors(batch: AnyBatch) -> Iterator[Tensor]:
    for value in (getattr(batch, part.name) for part in fields(batch) if part.name != "positions"):
        if isinstance(value, Tensor) and value.layout != torch.strided:
            listed = value.to_sparse_coo().coalesce()
            yield from (listed.indices(), listed.values())
        elif isinstance(value, Tensor):
            yield value
        elif isinstance(value, Graph):
            yield value.edge_index
            if value.parts:
                yield torch.tensor(value.parts)
            yield from (each for each in (value.weight, value.edge_features) if each is not None)
