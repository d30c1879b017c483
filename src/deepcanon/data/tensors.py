"""Data sets from tensors and arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import (
    AnyBatch,
    Batch,
    DataError,
    Graph,
    GraphBatch,
    Graphs,
    ImagePairs,
    Incomplete,
    Labeled,
    LabeledGraphs,
    LabeledPairs,
    LabeledSequences,
    Sequences,
    TwoDomains,
    UsageError,
    Videos,
)
from deepcanon.core.padding import valid_positions
from deepcanon.core.series import check_lengths
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes
from deepcanon.data.given_splits import with_splits
from deepcanon.data.text.sentence_rows import sentence_pairs_from
from deepcanon.data.text.text_pairs import pairs_from
from deepcanon.data.time_series import series_from
from deepcanon.data.torch_datasets import parts_of
from deepcanon.data.with_votes import votes_by, with_votes

SOURCE = "given as tensors"


def from_tensors(
    x: Tensor | np.ndarray[Any, Any],
    y: Any = None,
    *,
    name: str = "tensors",
    valid: Any = None,
    test: Any = None,
    lengths: Any = None,
    y_lengths: Any = None,
    segments: Any = None,
    unpaired: Any = None,
    observed: Any = None,
    votes: Any = None,
    origins: Any = None,
    covariates: Any = None,
    statics: Any = None,
    times: Any = None,
) -> Dataset[Any]:
    """A data set of tensors or arrays; its kind follows from the shape of ``x`` and from the parts given.

    - Images (N, channels, height, width) or rows (N, features). Whole numbers ``y`` are classes, (N,); real numbers are
      targets, (N,) or (N, targets), or images, one of each example.
    - ``unpaired``: the examples of another domain, as many as there are.
    - ``observed``, (N, features): which entries of rows are there; what x has elsewhere, NaN or anything, is never
      read. If all that is there are whole numbers from 1 on, they are ratings.
    - ``votes`` in place of ``y``: labeling functions, a list of Python functions that are given an example of ``x`` and
      give its class, or None to abstain; or their votes, (N, sources), -1 where one abstains.
    - ``lengths``, (N,), or one number for all: sequences of tokens (N, T), whole numbers, or of real values (N, T,
      features); what comes after is padding. With ``y`` they are labeled; without, real ones are time series, which
      may have ``origins``, by default half of the length, ``covariates``, ``statics`` and ``times`` of
      :class:`~deepcanon.core.Series`. Videos are (N, frames, channels, height, width).
    - ``y_lengths``, (N,): ``y`` are target sequences of tokens, (N, T), from the begin to the end token; of source
      sequences of tokens with ``lengths``, or of images, as their captions.
    - ``segments``, (N, T): rows of tokens with ``lengths`` are pairs of sentences, and ``y`` says which follow each
      other.

    ``valid`` and ``test`` are further splits: x or (x, y), or a data set made of the parts of that split in the same
    way. Without them there is only a training split.

    All real numbers become float32, also those of arrays; only if ``x`` is a tensor of float64 they become float64.

    >>> data = from_tensors(np.zeros((6, 3)), [0, 1, 2, 0, 1, 2])
    >>> data.kind, dict(data.sizes)
    ('table', {'features': 3, 'classes': 3})
    """
    given: Any = x
    if isinstance(given, Graph) or (isinstance(given, list | tuple) and given and isinstance(given[0], Graph)):
        raise DataError("graphs are given to from_graphs(graphs, features, y)")
    in_time = {"origins": origins, "covariates": covariates, "statics": statics, "times": times}
    others = {"lengths": lengths, "y_lengths": y_lengths, "segments": segments, "unpaired": unpaired,
              "observed": observed, "votes": votes}  # fmt: skip
    parts = {part: value for part, value in {**others, **in_time}.items() if value is not None}
    splits = {split: rows for split, rows in {"valid": valid, "test": test}.items() if rows is not None}
    if splits:
        train = from_tensors(x, y, name=name, **parts)
        return with_splits(train, **{split: _split(rows, train) for split, rows in splits.items()})
    dtype = torch.float64 if isinstance(x, Tensor) and x.dtype == torch.float64 else torch.float32
    x = _tensor(x, "x")
    if segments is not None:
        _only(parts, "pairs of sentences", "segments", "lengths")
        labels = None if y is None else _tensor(y, "y")
        return sentence_pairs_from(x, _ends(lengths, x), _tensor(segments, "segments"), labels, name, SOURCE)
    if y_lengths is not None:
        _only(parts, "pairs of sequences", "y_lengths", "lengths")
        targets = None if y is None else _tensor(y, "y")
        return pairs_from(x, _ends(lengths, x), targets, _ends(y_lengths, x), name, SOURCE)
    if observed is not None:
        _only(parts, "rows with missing entries", "observed")
        return _incomplete(x.to(dtype), y, _tensor(observed, "observed"), name)
    if lengths is not None or x.ndim in (3, 5):
        _only(parts, "sequences", "lengths", *in_time)
        return _in_time(x, y, dtype, name, lengths, {part: parts[part] for part in in_time if part in parts})
    _only(parts, "rows and images", "unpaired", "votes")
    plain = _plain(_real(x, dtype, "x"), y, unpaired, name)
    if votes is None:
        return plain
    written = isinstance(votes, list | tuple) and all(callable(each) for each in votes)
    return with_votes(plain, votes_by(votes, given) if written else _tensor(votes, "votes"))


def _split(given: Any, data: Dataset[Any]) -> Dataset[Any]:
    """A further split of the data: a data set, or the parts of it, in the precision of the data."""
    if isinstance(given, Dataset):
        return given
    x, *others = parts_of(given)
    return from_tensors(_tensor(x, "x").double() if data.train.x.dtype == torch.float64 else x, *others)


def _plain(x: Tensor, y: Any, unpaired: Any, name: str) -> Dataset[Any]:
    """Rows or images: alone, labeled, with an image each, or with another domain."""
    _check_shape(x, "x")
    dtype, shape = x.dtype, tuple(x.shape[1:])
    sizes = image_sizes(shape) if x.ndim == 4 else {"features": shape[0]}
    train: AnyBatch = Batch(x)
    if y is not None and unpaired is not None:
        raise UsageError("y belongs to the examples x one by one, unpaired to another domain; give one of them")
    if unpaired is not None or np.ndim(y) == 4:
        other = _real(_tensor(y if unpaired is None else unpaired, "the other domain"), dtype, "the other domain")
        _check_shape(other, "the other domain")
        train = ImagePairs(x, other) if unpaired is None else TwoDomains(x, other)
    elif y is not None:
        labels = _labels(_tensor(y, "y"), dtype)
        sizes |= _label_sizes(labels)
        train = Labeled(x, labels)
    return Dataset(
        name=name,
        kind="domains" if isinstance(train, TwoDomains) else "images" if x.ndim == 4 else "table",
        train=train,
        sizes=sizes,
        shape=shape,
        labels=tuple(map(str, range(sizes.get("classes", 0)))),
        source=SOURCE,
    )


def _only(parts: Mapping[str, Any], kind: str, *allowed: str) -> None:
    """Refuse parts that data of this kind do not have."""
    wrong = [part for part in parts if part not in allowed]
    if wrong:
        raise UsageError(f"{kind} have no {', '.join(wrong)}; they have {', '.join(allowed)}")


def _incomplete(x: Tensor, y: Any, observed: Tensor, name: str) -> Dataset[Incomplete]:
    """Rows with missing entries."""
    if y is not None:
        raise UsageError("rows with missing entries have no labels y; a model of them predicts what is missing")
    if x.ndim != 2 or 0 in x.shape or observed.dtype != torch.bool or observed.shape != x.shape:
        raise DataError(
            "x and observed must have the shape (N, features), and observed be true where an entry is there; got "
            f"{tuple(x.shape)} and {observed.dtype} of the shape {tuple(observed.shape)}"
        )
    there = _real(x[observed], x.dtype, "what is observed of x")
    sizes = {"features": x.shape[1]}
    rated = len(there) > 0 and bool((there >= 1).all()) and bool((there == there.round()).all())
    if rated:
        sizes["ratings"] = max(2, int(there.max()))
    return Dataset(
        name=name, kind="ratings" if rated else "table", train=Incomplete(x.masked_fill(~observed, torch.nan)),
        sizes=sizes, shape=(x.shape[1],), source=SOURCE,
    )  # fmt: skip


def _check_shape(x: Tensor, what: str) -> None:
    if x.ndim not in (2, 4) or 0 in x.shape:
        raise DataError(
            f"{what} must have the shape (N, features) or (N, channels, height, width), with no size 0; "
            f"got {tuple(x.shape)}"
        )


def _in_time(x: Tensor, y: Any, dtype: torch.dtype, name: str, lengths: Any, series: dict[str, Any]) -> Dataset[Any]:
    """Sequences of tokens, time series, labeled sequences or videos; what is beyond the lengths may be anything."""
    if x.ndim not in (2, 3, 5) or 0 in x.shape:
        raise DataError(
            "x with lengths must have the shape (N, T) of tokens, (N, T, features) of real values or (N, frames, "
            f"channels, height, width) of videos, with no size 0; got {tuple(x.shape)}"
        )
    if lengths is None:
        raise DataError(
            f"x of {x.ndim} axes are time series or videos: give their lengths, {x.shape[1]} for all that are not "
            f"padded; images have the shape (N, channels, height, width). got {tuple(x.shape)}"
        )
    ends = _ends(lengths, x)
    if ends.shape != x.shape[:1] or ends.is_floating_point() or int(ends.min()) < 1 or int(ends.max()) > x.shape[1]:
        found = f"{ends.dtype} of the shape {tuple(ends.shape)}, from {ends.min():g} to {ends.max():g}"
        raise DataError(f"lengths must be whole numbers from 1 to {x.shape[1]}, ({len(x)},); got {found}")
    if series and (x.ndim != 3 or y is not None):
        raise UsageError(f"only time series, (N, steps, features) without y, have {', '.join(series)}")
    inside = (torch.arange(x.shape[1]) < ends.unsqueeze(1)).view(*x.shape[:2], *[1] * (x.ndim - 2))
    shape = tuple(x.shape[1:])
    if x.ndim == 2:
        if x.is_floating_point() or int(x.masked_fill(~inside, 0).min()) < 0:
            raise DataError("tokens, (N, T), are whole numbers from 0 on; real values have the shape (N, T, features)")
        sizes = {"vocab": 1 + int(x.masked_fill(~inside, 0).max()), "length": x.shape[1]}
        if y is None:
            tokens = Sequences(x.long(), ends)
            return Dataset(name=name, kind="text", train=tokens, sizes=sizes, shape=shape, source=SOURCE)
        return _labeled_sequences(x.long(), y, ends, dtype, sizes, name)
    known = x.masked_fill(~inside, 0)
    if x.ndim == 3 and y is None and bool(known.isnan().any()):  # a missing value is NaN, unless none is there
        if bool(known.isnan()[inside.expand_as(x)].all()):
            raise DataError("the series hold no value, only NaN")
        known = known.masked_fill(known.isnan(), 0)
    _real(known, dtype, "x")
    if x.ndim == 5:
        if y is not None:
            raise UsageError("videos have no labels y; leave them out")
        videos = Videos(x.to(dtype), ends)
        check_lengths(videos)
        sizes = {**image_sizes(tuple(x.shape[2:])), "length": x.shape[1]}
        return Dataset(name=name, kind="videos", train=videos, sizes=sizes, shape=shape, source=SOURCE)
    if y is not None:
        sizes = {"features": x.shape[2], "length": x.shape[1]}
        return _labeled_sequences(x.to(dtype), y, ends, dtype, sizes, name)
    batch, sizes = series_from(x.to(dtype), ends, **series)
    return Dataset(name=name, kind="series", train=batch, sizes=sizes, shape=shape, source=SOURCE)


def _labeled_sequences(
    x: Tensor, y: Any, ends: Tensor, dtype: torch.dtype, sizes: dict[str, int], name: str
) -> Dataset[LabeledSequences]:
    """Sequences with a label each, or one at every position."""
    labels = _tensor(y, "y")
    if labels.shape[:2] == x.shape[:2]:  # at every position
        classes = not labels.is_floating_point()
        labels = labels.long() if classes else labels.to(dtype).reshape(*x.shape[:2], -1)
        sizes |= _label_sizes(labels[valid_positions(labels, ends)])  # the padding may hold anything
    else:
        labels = _labels(labels, dtype)
        sizes |= _label_sizes(labels)
    return Dataset(
        name=name, kind="sequences", train=LabeledSequences(x, labels, ends), sizes=sizes, shape=tuple(x.shape[1:]),
        labels=tuple(map(str, range(sizes.get("classes", 0)))), source=SOURCE,
    )  # fmt: skip


def from_graph(
    graph: Graph, features: Any = None, y: Any = None, *, mask: Any = None, name: str = "graph", **parts: Any
) -> Dataset[Any]:
    """A data set of one graph, with only a training split.

    ``features`` and ``parts`` are those of :func:`from_graphs`. Classes ``y`` with one for each node, (nodes,), are
    those of the nodes, of which ``mask``, (nodes,), says whose are known; else ``y`` is what it is there.

    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=3)
    >>> data = from_graph(path, torch.eye(3), [0, 0, 1], mask=[True, False, True])
    >>> data.kind, dict(data.sizes), data.train.counted
    ('graph', {'nodes': 3, 'features': 3, 'classes': 2}, tensor([0, 2]))
    """
    if y is None or parts or np.shape(y)[:1] != (graph.nodes,):
        if mask is not None:
            raise UsageError(f"mask says which of the classes y of {graph.nodes} nodes are known; give y, one for each")
        return from_graphs([graph], features, y, name=name, **parts)
    nodes = from_graphs([graph], features, name=name).train.x
    classes = _labels(_tensor(y, "y"), nodes.dtype)
    if classes.is_floating_point():
        raise DataError("classes of nodes are whole numbers; real targets of nodes are not supported")
    known = torch.ones(graph.nodes, dtype=torch.bool) if mask is None else _tensor(mask, "mask")
    if known.dtype != torch.bool or known.shape != classes.shape or not bool(known.any()):
        raise DataError(
            f"mask is true where a class is known, of {graph.nodes} nodes; got {known.dtype} of {known.shape}"
        )
    sizes = {"nodes": graph.nodes, "features": nodes.shape[1], **_label_sizes(classes)}
    return Dataset(
        name=name, kind="graph", train=GraphBatch(nodes, classes, known, graph), sizes=sizes, shape=(nodes.shape[1],),
        labels=tuple(map(str, range(sizes["classes"]))), source=SOURCE,
    )  # fmt: skip


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


def _ends(lengths: Any, x: Tensor) -> Any:
    """The lengths of the rows, (N,), of one number for all or one for each; None of none."""
    if lengths is None:
        return None
    ends = _tensor(lengths, "lengths")
    return ends.expand(len(x)) if ends.ndim == 0 else ends


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.tensor(np.ascontiguousarray(values) if np.ndim(values) else np.asarray(values))
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be a tensor or an array of numbers: {error}") from error


def _real(values: Tensor, dtype: torch.dtype, what: str) -> Tensor:
    if values.is_complex():
        raise DataError(f"{what} must be real, got {values.dtype}")
    values = values.to(dtype)
    if not values.isfinite().all():
        raise DataError(
            f"{what} has NaN or infinite values; mend or remove them first, or say which are there by observed="
        )
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
