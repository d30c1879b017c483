"""Batches say what a model eats: frozen dataclasses whose required fields are tensors with one row per example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import torch
from torch import Tensor

from deepcanon.core.errors import DataError
from deepcanon.core.graph import Graph


@dataclass(frozen=True, eq=False)
class AnyBatch:
    """What all batches share; ``words`` names their content in messages."""

    words: ClassVar[str]
    x: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model's ``forward`` takes."""
        return (self.x,)

    def __len__(self) -> int:
        return self.x.shape[0]  # faster than len(x), and asked for at every step

    def select(self, index: Tensor) -> Self:
        """The examples at these positions."""
        return self._map(lambda tensor: tensor.index_select(0, index))

    def to(self, device: torch.device | str) -> Self:
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(**{name: change(getattr(self, name)) for name in _names(type(self))})


@dataclass(frozen=True, eq=False)
class Batch(AnyBatch):
    """Examples ``x`` in their natural shape, one per row: (B, features), (B, channels, height, width) ...

    >>> Batch(torch.zeros(5, 2)).select(torch.tensor([0, 3])).x.shape
    torch.Size([2, 2])
    """

    words = "examples"


@dataclass(frozen=True, eq=False)
class Labelled(Batch):
    """Examples with labels: whole numbers are classes, (B,); real numbers are regression targets, (B, targets)."""

    words = "labelled examples"
    y: Tensor

    def __post_init__(self) -> None:
        if self.x.shape[0] != self.y.shape[0]:
            raise DataError(f"every example needs one label: got {len(self.x)} examples and {len(self.y)} labels")


@dataclass(frozen=True, eq=False)
class Sequences(AnyBatch):
    """Sequences of symbols, right-padded: ``x`` (B, T), of which the first ``lengths[i]`` of row i count."""

    words = "sequences"
    lengths: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (self.x, self.lengths)


@dataclass(frozen=True, eq=False)
class GraphBatch(AnyBatch):
    """A whole graph at once: features ``x`` and classes ``y`` per vertex; ``mask`` says which vertices count."""

    words = "graphs"
    y: Tensor
    mask: Tensor
    graph: Graph

    def __len__(self) -> int:
        return 1

    def select(self, index: Tensor) -> Self:
        """The graph itself: its vertices hang together, so a data set of one graph is a data set of one batch."""
        return self

    def to(self, device: torch.device | str) -> Self:
        return type(self)(
            x=self.x.to(device), y=self.y.to(device), mask=self.mask.to(device), graph=self.graph.to(device)
        )


def _names(kind: type[AnyBatch]) -> tuple[str, ...]:
    """The field names of a batch type, looked up once: ``select`` runs at every step of training."""
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind))
    return names


_NAMES: dict[type[AnyBatch], tuple[str, ...]] = {}
