"""Data sets from tensors and arrays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import Batch, DataError, Graph, Graphs, Labeled, LabeledGraphs, LabeledPairs
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes

SOURCE = "given as tensors"


def from_tensors(x: Tensor | np.ndarray[Any, Any], y: Any = None, *, name: str = "tensors") -> Dataset[Any]:
    """A data set with only a training split: images (N, channels, height, width) or rows (N, features).

    Whole numbers ``y`` are classes, (N,); real numbers are targets, (N,) or (N, targets). All real numbers become
    float32, also those of arrays; only if ``x`` is a tensor of float64 they become float64.

    >>> data = from_tensors(np.zeros((6, 3)), [0, 1, 2, 0, 1, 2])
    >>> data.kind, dict(data.sizes)
    ('table', {'features': 3, 'classes': 3})
    """
    given: Any = x
    if isinstance(given, Graph) or (isinstance(given, list | tuple) and given and isinstance(given[0], Graph)):
        raise DataError("graphs are given to from_graphs(graphs, features, y)")
    dtype = torch.float64 if isinstance(x, Tensor) and x.dtype == torch.float64 else torch.float32
    x = _real(_tensor(x, "x"), dtype, "x")
    if x.ndim not in (2, 4) or 0 in x.shape:
        raise DataError(
            f"x must have the shape (N, features) or (N, channels, height, width), with no size 0; got {tuple(x.shape)}"
        )
    shape = tuple(x.shape[1:])
    sizes = image_sizes(shape) if x.ndim == 4 else {"features": shape[0]}
    train: Batch = Batch(x)
    if y is not None:
        labels = _labels(_tensor(y, "y"), dtype)
        sizes |= _label_sizes(labels)
        train = Labeled(x, labels)
    return Dataset(
        name=name,
        kind="images" if x.ndim == 4 else "table",
        train=train,
        sizes=sizes,
        shape=shape,
        labels=tuple(map(str, range(sizes.get("classes", 0)))),
        source=SOURCE,
    )


def from_graphs(
    graphs: Sequence[Graph],
    features: Any = None,
    y: Any = None,
    *,
    pairs: Sequence[Tensor] | None = None,
    name: str = "graphs",
) -> Dataset[Any]:
    """A data set of many graphs, with only a training split.

    ``features`` are those of the nodes: a tensor or array (nodes, features) of each graph, or one of all; without them
    every node has the feature 1. ``y`` are labels of the graphs, as in :func:`from_tensors`. With ``pairs`` of nodes,
    (2, P) of each graph, they are labels of the pairs; where edges are classified, the pairs are ``edge_index``.

    >>> pair = Graph(torch.tensor([[0, 1], [1, 0]]), nodes=2)
    >>> data = from_graphs([pair, pair], torch.zeros(4, 3), [0, 1])
    >>> data.kind, dict(data.sizes), len(data.train)
    ('graphs', {'features': 3, 'classes': 2}, 2)
    """
    wrong = next((graph for graph in graphs if not isinstance(graph, Graph)), None)
    if wrong is not None or not graphs:
        found = "an empty one" if wrong is None else f"one with a {type(wrong).__name__}"
        raise DataError(f"graphs must be a list of Graph, got {found}")
    union = Graph.union([replace(graph, parts=()) for graph in graphs])
    if features is None:
        features = torch.ones(union.nodes, 1)
    listed = list(features) if isinstance(features, list | tuple) and np.ndim(features[0]) == 2 else [features]
    double = all(isinstance(each, Tensor) and each.dtype == torch.float64 for each in listed)
    dtype = torch.float64 if double else torch.float32
    x = torch.cat([_real(_tensor(each, "features"), dtype, "features") for each in listed])
    if x.ndim != 2 or x.shape[0] != union.nodes or x.shape[1] == 0:
        raise DataError(
            f"graphs of {union.nodes} nodes need features of the shape ({union.nodes}, features), got {tuple(x.shape)}"
        )
    sizes = {"features": x.shape[1]}
    if union.edge_features is not None:
        sizes["edge_features"] = union.edge_features.shape[1]
    train: Graphs = Graphs(x, union)
    if pairs is not None and y is None:
        raise DataError("pairs of nodes are there to be labeled: give their labels y, too")
    if y is not None:
        labels = _labels(_tensor(y, "y"), dtype)
        sizes |= _label_sizes(labels)
        if pairs is None:
            train = LabeledGraphs(x, labels, union)
        else:
            starts = [sum(graph.nodes for graph in graphs[:place]) for place in range(len(graphs))]
            moved = [each + start for each, start in zip(pairs, starts, strict=True)]
            train = LabeledPairs(x, labels, union, torch.cat(moved, 1))
    return Dataset(
        name=name, kind="graphs", train=train, sizes=sizes, shape=(x.shape[1],),
        labels=tuple(map(str, range(sizes.get("classes", 0)))), source=SOURCE,
    )  # fmt: skip


def _label_sizes(labels: Tensor) -> dict[str, int]:
    """The sizes that labels give a model."""
    return {"targets": labels.shape[1]} if labels.is_floating_point() else {"classes": int(labels.max()) + 1}


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.tensor(np.asarray(values))
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be a tensor or an array of numbers: {error}") from error


def _real(values: Tensor, dtype: torch.dtype, what: str) -> Tensor:
    if values.is_complex():
        raise DataError(f"{what} must be real, got {values.dtype}")
    values = values.to(dtype)
    if not values.isfinite().all():
        raise DataError(f"{what} has NaN or infinite values; mend or remove them first")
    return values


def _labels(y: Tensor, dtype: torch.dtype) -> Tensor:
    if y.is_floating_point() or y.is_complex():
        y = _real(y, dtype, "y")
        y = y.unsqueeze(1) if y.ndim == 1 else y
        if y.ndim != 2 or 0 in y.shape:
            raise DataError(f"real-valued y must have the shape (N,) or (N, targets), got {tuple(y.shape)}")
        return y
    if y.ndim != 1 or not len(y):
        raise DataError(f"classes y must have the shape (N,), got {tuple(y.shape)}")
    if int(y.min()) < 0:
        raise DataError(f"classes y must count from 0, got {int(y.min())}")
    return y.long()
