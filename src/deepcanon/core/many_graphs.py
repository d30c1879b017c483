"""Batches of many graphs, side by side in one union; an example is a whole graph."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor

from deepcanon.core.batch import AnyBatch, Labeled
from deepcanon.core.errors import DataError
from deepcanon.core.graph import Graph
from deepcanon.core.sparse import ranges


@dataclass(frozen=True, eq=False)
class Graphs(AnyBatch):
    """Many graphs: the features of all their nodes, ``x`` (nodes, features), and the union ``graph`` of the graphs.

    A mini-batch is the union of the graphs that were chosen. Features of edges are those of the union.

    >>> pair = Graph(torch.tensor([[0, 1], [1, 0]]), nodes=2)
    >>> batch = Graphs(torch.arange(6.0).view(6, 1), Graph.union([pair, pair, pair]))
    >>> batch.select(torch.tensor([2, 0])).x.flatten(), len(batch)
    (tensor([4., 5., 0., 1.]), 3)
    """

    noun = "many graphs"
    graph: Graph

    def __post_init__(self) -> None:
        if self.x.shape[0] != self.graph.nodes:
            raise DataError(f"graphs of {self.graph.nodes} nodes need as many rows of x, got {len(self.x)}")

    @classmethod
    def is_a(cls, batch_type: type[AnyBatch]) -> bool:
        knows_graphs = batch_type is AnyBatch or issubclass(batch_type, Graphs)  # others would take nodes for examples
        return super().is_a(batch_type) and knows_graphs

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.graph)

    @property
    def modeled(self) -> Graph:
        return self.graph

    def __len__(self) -> int:
        return len(self.graph.parts) or min(1, self.graph.nodes)

    def rows(self, index: Tensor) -> Tensor:
        return self.graph.rows(index)

    def select(self, index: Tensor) -> Self:
        return type(self)(**self._chosen(index), positions=self._places(index))

    def to(self, device: torch.device | str) -> Self:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: None if part is None else part.to(device) for name, part in parts.items()}
        return type(self)(**moved)

    def _chosen(self, index: Tensor) -> dict[str, Any]:
        return {"x": self.x.index_select(0, self.rows(index)), "graph": self.graph.select(index)}


@dataclass(frozen=True, eq=False)
class LabeledGraphs(Graphs, Labeled):
    """Many graphs with a label each: whole numbers are classes, (B,); real numbers are targets, (B, targets)."""

    noun = "labeled graphs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.y) != len(self):
            raise DataError(f"every graph needs one label: got {len(self)} graphs and {len(self.y)} labels")

    def _chosen(self, index: Tensor) -> dict[str, Any]:
        return {**super()._chosen(index), "y": self.y.index_select(0, index)}


@dataclass(frozen=True, eq=False)
class LabeledPairs(Graphs, Labeled):
    """Graphs with labels ``y`` of some ``pairs`` of nodes, (2, P), listed graph by graph.

    A pair may be joined by an edge or not: of edges to be classified, the pairs are the edges; of links to be
    predicted, they are edges that the graph does not show and pairs without an edge.
    """

    noun = "graphs with labeled pairs of nodes"
    pairs: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs.ndim != 2 or self.pairs.shape != (2, len(self.y)):
            raise DataError(
                f"{len(self.y)} labels need pairs of the shape (2, {len(self.y)}), got {tuple(self.pairs.shape)}"
            )
        if self.pairs.is_meta or not self.pairs.numel():
            return
        if not 0 <= int(self.pairs.min()) <= int(self.pairs.max()) < self.graph.nodes:
            raise DataError(f"pairs must be of nodes 0 to {self.graph.nodes - 1}")
        source, target = self.graph.membership()[self.pairs]
        if not torch.equal(source, target) or bool((source.diff() < 0).any()):
            raise DataError("pairs must be of nodes of one graph, and be listed graph by graph")

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.graph, self.pairs)

    @property
    def weight(self) -> int:
        return self.pairs.shape[1]

    def _chosen(self, index: Tensor) -> dict[str, Any]:
        chosen = super()._chosen(index)
        if index.is_meta:
            count = self.pairs.shape[1] // max(1, len(self)) * len(index)
            return {**chosen, "pairs": self.pairs.new_empty(2, count), "y": self.y.new_empty(count, *self.y.shape[1:])}
        sizes = torch.tensor(self.graph.parts or (self.graph.nodes,), device=index.device)
        starts = sizes.cumsum(0) - sizes
        counts = self.graph.membership()[self.pairs[0]].bincount(minlength=len(sizes))
        places = ranges((counts.cumsum(0) - counts)[index], counts[index])
        moved = sizes[index].cumsum(0) - sizes[index] - starts[index]
        pairs = self.pairs.index_select(1, places) + moved.repeat_interleave(counts[index], output_size=len(places))
        return {**chosen, "pairs": pairs, "y": self.y.index_select(0, places)}
