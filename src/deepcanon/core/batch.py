"""Batches of examples, the input of one training step: frozen dataclasses of tensors with one row per example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from deepcanon.core.display import Shown, notebook, table
from deepcanon.core.errors import DataError
from deepcanon.core.graph import Graph
from deepcanon.core.padding import valid_positions
from deepcanon.core.sketch import batch_sketch
from deepcanon.core.sparse import Sparse


@dataclass(frozen=True, eq=False)
class AnyBatch(Shown):
    """A batch of examples, the base of all batch types; ``noun`` names its content in messages."""

    noun: ClassVar[str]
    term: ClassVar[str] = "example"
    """What a loss of the batch is a mean over."""
    in_memory: ClassVar[bool] = True
    """False where the examples lie in files: select some rather than read all of ``x``."""
    x: Tensor
    positions: Tensor | None = field(default=None, kw_only=True, repr=False)
    """Of a selection, where its examples stand in the data set, (B,); None for a data set, and where there is no such
    place: for the nodes of one graph and for two domains, each of which has an order of its own."""

    def _repr_html_(self) -> str:
        return notebook(f"{type(self).__name__}: {self.noun}", table([], self._facts().items()), batch_sketch(self))

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments of the model's ``forward``: tensors, and for a graph the graph."""
        return (self.x,)

    @property
    def modeled(self) -> Any:
        """What a likelihood is of, and what samples are like: ``x``, or of many graphs their union."""
        return self.x

    @property
    def labels(self) -> Tensor | None:
        """The labels or targets that count, one for each term of a loss; None where the examples have none."""
        return None

    def where_labeled(self, predictions: Tensor) -> Tensor:
        """Of what a model predicts from ``inputs``, the rows that belong to ``labels``."""
        return predictions

    @classmethod
    def held_out(cls) -> type[AnyBatch]:
        """The batch type on which a model trained on this type is evaluated."""
        return cls

    def __len__(self) -> int:
        return self.x.shape[0]  # faster than len(x), and called at every step

    @property
    def weight(self) -> int:
        """The number of terms that a loss of this batch is the mean of: the weight of this mean among other batches."""
        return len(self)

    @property
    def metric_weight(self) -> int | None:
        """The number of terms that the metrics of this batch are means of, where it is not that of the loss."""
        return None

    @classmethod
    def is_a(cls, batch_type: type[AnyBatch]) -> bool:
        """Whether a model of this batch type can be trained on these batches."""
        return issubclass(cls, batch_type)

    def order(self, size: int, generator: Generator) -> Tensor:
        """The order of the examples in one epoch of mini-batches of ``size``."""
        return torch.randperm(len(self), generator=generator)

    def rows(self, index: Tensor) -> Tensor:
        """The rows of ``x`` that hold the examples at these positions."""
        return index

    def select(self, index: Tensor) -> Self:
        """The examples at these positions; a selection of a selection still says where they stand in the data set."""
        return self._map(lambda tensor: tensor.index_select(0, index), positions=self._places(index))

    def part(self, index: Tensor) -> Self:
        """The examples at these positions as a data set of its own; those that lie in files stay there."""
        return replace(self.select(index), positions=None)

    def hold_out(self, share: float, generator: Generator) -> tuple[Self, Self]:
        """The examples without a share of them that is drawn at random, and that share, both in their order."""
        order = torch.randperm(len(self), generator=generator).to(self.device)
        held = max(1, round(share * len(self)))
        return self.part(order[held:].sort().values), self.part(order[:held].sort().values)

    @property
    def device(self) -> torch.device:
        return self.x.device

    def to(self, device: torch.device | str) -> Self:
        return self._map(lambda tensor: tensor.to(device))

    def _places(self, index: Tensor) -> Tensor:
        """Where the examples at these positions stand in the data set."""
        return index if self.positions is None else self.positions.index_select(0, index)

    def _map(self, change: Callable[[Tensor], Tensor], **others: Any) -> Self:
        """The batch with every tensor changed but for ``others``, which are given."""
        parts = ((name, getattr(self, name)) for name in _names(type(self)) if name not in others)
        changed: dict[str, Any] = {name: None if part is None else change(part) for name, part in parts}
        return type(self)(**{**changed, **others})


@dataclass(frozen=True, eq=False)
class Batch(AnyBatch):
    """Examples ``x`` in their natural shape, one per row: (B, features), (B, channels, height, width) ...

    >>> Batch(torch.zeros(5, 2)).select(torch.tensor([0, 3])).x.shape
    torch.Size([2, 2])
    """

    noun = "examples"


@dataclass(frozen=True, eq=False)
class Labeled(Batch):
    """Examples with labels: whole numbers are classes, (B,); real numbers are regression targets, (B, targets)."""

    noun = "labeled examples"
    y: Tensor

    def __post_init__(self) -> None:
        if self.x.shape[0] != self.y.shape[0]:
            raise DataError(f"every example needs one label: got {len(self.x)} examples and {len(self.y)} labels")

    @property
    def labels(self) -> Tensor:
        return self.y


@dataclass(frozen=True, eq=False)
class SemiBatch(Labeled):
    """Semi-supervised data: a few labeled examples ``x``, ``y`` and many ``unlabeled`` ones.

    A supervised model is trained on the labeled examples only. The length is that of the unlabeled ones; labeled ones,
    if fewer, are repeated, so that a selection holds as many of both.

    >>> few = SemiBatch(torch.zeros(3, 2), torch.tensor([0, 1, 2]), torch.zeros(100, 2))
    >>> few.select(torch.tensor([0, 4, 50, 99])).y
    tensor([0, 1, 2, 0])
    """

    noun = "labeled and unlabeled examples"
    unlabeled: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.x.shape[1:] != self.unlabeled.shape[1:]:
            labeled, unlabeled = tuple(self.x.shape[1:]), tuple(self.unlabeled.shape[1:])
            raise DataError(f"unlabeled examples must have the shape of the labeled ones, {labeled}; got {unlabeled}")
        few, many = self.x.shape[0], self.unlabeled.shape[0]
        if few > many or (many and not few):
            raise DataError(f"there must be labeled examples, and no fewer unlabeled ones; got {few} and {many}")

    @classmethod
    def held_out(cls) -> type[AnyBatch]:
        return Labeled

    def __len__(self) -> int:
        return self.unlabeled.shape[0]

    def select(self, index: Tensor) -> Self:
        row = index % self.x.shape[0]
        return type(self)(
            self.x.index_select(0, row),
            self.y.index_select(0, row),
            self.unlabeled.index_select(0, index),
            positions=self._places(index),
        )


@dataclass(frozen=True, eq=False)
class LabeledSequences(Labeled):
    """Sequences with labels: ``x`` are tokens, (B, T), or real values, (B, T, features), right-padded to one length.

    Of row i the first ``lengths[i]`` positions count, the others are padding. A label belongs to a whole sequence, as
    in ``Labeled``, or there is one at every position: classes, (B, T), or real targets, (B, T, targets).
    """

    noun = "labeled sequences"
    lengths: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lengths.shape != self.x.shape[:1]:
            raise DataError(f"{len(self.x)} sequences have as many lengths; got the shape {tuple(self.lengths.shape)}")
        if self.at_every_position and self.y.shape[1] != self.x.shape[1]:
            raise DataError(
                f"labels at every position are as many as the sequences have positions, {self.x.shape[1]}; got "
                f"{self.y.shape[1]}: cut or pad the rows of both to one length"
            )

    @classmethod
    def is_a(cls, batch_type: type[AnyBatch]) -> bool:
        padding_aware = batch_type not in (Batch, Labeled)  # models of these would take the padding for data
        return super().is_a(batch_type) and padding_aware

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.lengths)

    @property
    def at_every_position(self) -> bool:
        """Whether there is a label at every position."""
        return self.y.ndim == (3 if self.y.is_floating_point() else 2)

    @property
    def labels(self) -> Tensor:
        return self.where_labeled(self.y)

    def where_labeled(self, predictions: Tensor) -> Tensor:
        return predictions[valid_positions(self.x, self.lengths)] if self.at_every_position else predictions

    @property
    def weight(self) -> int:
        return int(self.lengths.sum()) if self.at_every_position else len(self)


@dataclass(frozen=True, eq=False)
class Sequences(AnyBatch):
    """Sequences of tokens, right-padded: ``x`` (B, T); of row i the first ``lengths[i]`` tokens count.

    A model of them predicts every token of a row but the first, which it is given; its loss is the mean over these.

    >>> Sequences(torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3])).weight
    6
    """

    noun = "sequences"
    term = "token"
    lengths: Tensor

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.lengths)

    @property
    def weight(self) -> int:
        return int((self.lengths - 1).sum())


@dataclass(frozen=True, eq=False)
class Stream(Sequences):
    """Consecutive windows of one long text; the last token of a window is the first of the next.

    Row i begins at position ``starts[i]`` of the text. The rows of a batch are far apart, and the same row of the next
    batch continues where this one ends, so that a recurrent model may carry its state from batch to batch.
    """

    noun = "consecutive windows of a text"
    starts: Tensor

    def order(self, size: int, generator: Generator) -> Tensor:
        """The text cut into ``size`` segments that are read in parallel; windows that do not fill a batch come last.

        >>> x, lengths = torch.zeros(7, 2), torch.full((7,), 2)
        >>> Stream(x, lengths, torch.arange(7)).order(3, torch.Generator())
        tensor([0, 2, 4, 1, 3, 5, 6])
        """
        windows = torch.arange(len(self))
        each = len(self) // size
        return torch.cat([windows[: each * size].view(size, each).T.flatten(), windows[each * size :]])


@dataclass(frozen=True, eq=False)
class GraphBatch(AnyBatch):
    """A whole graph as one batch: features ``x`` and classes ``y`` of each node; ``mask`` says which nodes count.

    A class below 0 is not known, and its node is not in the mask.
    Sparse features are given as a sparse tensor of torch; a model gets them as :class:`Sparse`.
    """

    noun = "a graph with classes of nodes"
    y: Tensor
    mask: Tensor
    graph: Graph

    def __post_init__(self) -> None:
        for name, rows in (("x", self.x), ("y", self.y), ("mask", self.mask)):
            if rows.shape[0] != self.graph.nodes:
                raise DataError(f"a graph of {self.graph.nodes} nodes needs as many rows of {name}, got {len(rows)}")

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.features, self.graph)

    @cached_property
    def features(self) -> Tensor | Sparse:
        """The features of the nodes: ``x``, as :class:`Sparse` if it is a sparse tensor."""
        return self.x if self.x.layout == torch.strided else Sparse.of(self.x)

    @cached_property
    def counted(self) -> Tensor:
        """The numbers of the nodes in the mask."""
        return self.mask.nonzero().squeeze(1)

    @property
    def labels(self) -> Tensor:
        return self.where_labeled(self.y)

    def where_labeled(self, predictions: Tensor) -> Tensor:
        return predictions.index_select(0, self.counted)

    def __len__(self) -> int:
        return 1

    def select(self, index: Tensor) -> Self:
        """The graph itself: its nodes depend on each other, so a data set of one graph is one batch."""
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
