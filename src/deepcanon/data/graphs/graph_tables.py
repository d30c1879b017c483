"""A graph as two tables, one of its nodes and one of its edges, and the data set that they give.

- Features of nodes are the columns of their table, treated as those of any table, but that columns of zeros and ones
  stay as they are. They are fitted on all nodes: each is an input of the training, whether its class is known or not.
  Nodes without columns are told apart by who they are: the features are one-hot.
- An edge counts in both directions unless the graph is directed. A self-loop stays one. In a graph without weights and
  features of edges, an edge that is listed more than once counts once; else only its listing in the other direction may
  follow, with the same values.
- Nodes without an edge are kept. Nodes without a class are in no split: they are there to be predicted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, Graph, GraphBatch, UsageError
from deepcanon.core.hints import listed
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.split import cut, stratified_order, three_counts
from deepcanon.data.tables.csv_cells import number
from deepcanon.data.tables.csv_file import CsvFile
from deepcanon.data.tables.prepared_table import fit_features
from deepcanon.data.tables.table import MOST_CLASSES, Table, labeled_rows, say_unknown
from deepcanon.data.tables.table_columns import Category, Column, Number, column_as_json, column_from_json

DIRECTED, UNDIRECTED, PLAIN, LINKS = "directed", "undirected", "plain", "links"
"""The forms of a graph: how its edges are read, whether without their attributes, and whether they are the target."""
PLAIN_OF = "a graph, whose edges may have weights and features"
WEIGHT = "weight"
"""The column of edges that is their weight; every further one is a feature."""
PARTS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}
"""What a column may say of a node's split."""
UNKNOWN = -1
"""The code of a class that is not known."""
SPARSE = 0.1
"""Features of which a smaller share is not zero are kept as a sparse matrix."""


@dataclass(frozen=True)
class GraphTables:
    """A graph as it is in its files.

    Arguments:
        path: The file that is named as the data.
        nodes: The table of the nodes, one row each.
        id: The name of what names the nodes, a column of the table or not.
        names: The names of the nodes, in the order of the rows.
        edges: The table of the edges.
        ends: The numbers of the nodes that each edge leads from and to, (2, edges).
        directed: Whether an edge leads one way only.
    """

    path: Path
    nodes: CsvFile
    id: str
    names: tuple[str, ...]
    edges: CsvFile
    ends: NDArray[np.int64]
    directed: bool

    def columns(self, *others: str | None) -> CsvFile:
        """The table of the nodes without the column of their names and these ``others``."""
        for name in filter(None, others):
            self.nodes.column(name)  # which must be there
        left_out = {self.id, *others}
        return replace(self.nodes, columns={k: cells for k, cells in self.nodes.columns.items() if k not in left_out})


@dataclass(frozen=True)
class NodeForm:
    """The preprocessing of a graph: the columns of its nodes, their classes, and the columns of its edges."""

    nodes: Table
    edges: Table | None
    weighted: bool
    target: Category | None
    identity: str = ""
    """Of nodes that are told apart by who they are, the SHA-256 of their names; else empty."""

    @classmethod
    def fit(cls, tables: GraphTables, target: str | None, reading: Reading, plain: bool) -> NodeForm:
        nodes = _fit_nodes(tables.columns(target, reading.get("split")), reading)
        edges = fit_features(_edge_features(tables.edges), {})
        return cls(
            nodes=nodes,
            edges=edges if edges.columns and not plain else None,
            weighted=WEIGHT in tables.edges.columns and not plain,
            target=None if target is None else _classes(tables, target),
            identity="" if nodes.columns else _digest(tables.names),
        )

    @property
    def classes(self) -> Category:
        """The classes of the nodes, or of many graphs."""
        if self.target is None:
            raise DataError("this preprocessing is that of a graph without classes")
        return self.target

    def remarks(self) -> tuple[str, ...]:
        """What is worth knowing before a training: the columns of nodes and edges that are left out."""
        tables = {"nodes": self.nodes, "edges": self.edges}
        dropped = {part: table.dropped for part, table in tables.items() if table is not None and table.dropped}
        return tuple(
            f"Dropped columns of {part}: {listed([f'{column.name} ({column.why})' for column in columns])}."
            for part, columns in dropped.items()
        )

    def x(self, tables: GraphTables) -> Tensor:
        """The features of the nodes, (nodes, features)."""
        if not self.identity:
            x = self.nodes.x(tables.nodes)
            return x.to_sparse_coo() if float((x != 0).double().mean()) < SPARSE else x
        if _digest(tables.names) != self.identity:
            raise UsageError(
                f"the model has learned who the nodes of its graph are, which have no columns; {tables.nodes.path} has "
                "others: only nodes with columns can be new"
            )
        return _one_hot(len(tables.names))

    def graph(self, tables: GraphTables) -> Graph:
        chosen, edge_index = _joined(tables, attributed=self.weighted or self.edges is not None)
        edges = tables.edges.rows(chosen)
        return Graph(
            torch.from_numpy(edge_index),
            len(tables.names),
            torch.from_numpy(_weights(edges)) if self.weighted else None,
            edge_features=None if self.edges is None else self.edges.x(edges),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": [] if self.identity else self.nodes.as_json()["columns"],
            "edges": None if self.edges is None else self.edges.as_json()["columns"],
            "weighted": self.weighted,
            "target": None if self.target is None else column_as_json(self.target),
            "identity": self.identity,
        }

    @classmethod
    def from_json(cls, preprocessing: Mapping[str, Any]) -> NodeForm:
        if "graph" not in preprocessing:
            raise DataError(f"this preprocessing is not that of a graph: it has {listed(preprocessing)}")
        saved = preprocessing["graph"]
        target = None if saved["target"] is None else column_from_json(saved["target"])
        return cls(
            nodes=Table.from_json({"columns": saved["nodes"]}),
            edges=None if saved["edges"] is None else Table.from_json({"columns": saved["edges"]}),
            weighted=saved["weighted"],
            target=target if isinstance(target, Category) else None,
            identity=saved["identity"],
        )


def node_data(
    tables: GraphTables, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[GraphBatch]:
    """The data set of a graph whose nodes have classes, split by a fixed seed or as a column says."""
    target, split = reading.get("target"), reading.get("split")
    saved = None if preprocessing is None else NodeForm.from_json(preprocessing)
    if saved is not None and saved.target is not None:
        target = saved.target.name
    if target is None:
        there = list(tables.columns(split).columns)
        choice = f"which of {listed(there)} is the class of a node" if there else "which column is the class of a node"
        raise UsageError(f"say by the target {choice}, or predict links, {tables.path}:{LINKS}")
    form = saved or NodeForm.fit(tables, target, reading, PLAIN in forms)
    x, y, graph = form.x(tables), _codes(tables, form.classes), form.graph(tables)
    masks: Sequence[Tensor | None]
    masks = _split_by(tables, split, y) if split else split_of_classes(y, _column(tables, target))
    train, valid, test = (None if mask is None else GraphBatch(x=x, y=y, mask=mask, graph=graph) for mask in masks)
    assert train is not None  # which every split has
    sizes = {"nodes": graph.nodes, "features": x.shape[1], "classes": len(form.classes.values)}
    if graph.edge_features is not None:
        sizes["edge_features"] = graph.edge_features.shape[1]
    return Dataset(
        name=":".join([str(tables.path), *forms]),
        kind="graph",
        train=train,
        valid=valid,
        test=test,
        sizes=sizes,
        shape=(x.shape[1],),
        labels=form.classes.values,
        source=str(tables.path.resolve()),
        target=target,
        preprocessing={"graph": form.as_json()} | ({"form": ":".join(forms)} if forms else {}),
        remarks=form.remarks(),
    )


def new_nodes(tables: GraphTables, preprocessing: Mapping[str, Any], labeled: bool) -> GraphBatch:
    """A graph with the same columns, for a model that has learned from another, or the same graph once more."""
    form = NodeForm.from_json(preprocessing)
    say_unknown(form.nodes.unknown(tables.nodes))
    y = torch.full((len(tables.names),), UNKNOWN)
    if labeled:
        y = _codes(tables, form.classes)
        if not bool((y >= 0).any()):
            raise DataError(
                f"{tables.nodes.path} has no node with a {form.classes.name!r}, so there is nothing to compare with"
            )
    return GraphBatch(x=form.x(tables), y=y, mask=y >= 0, graph=form.graph(tables))


def names_of_nodes(tables: GraphTables, preprocessing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The names of the nodes, and their classes as far as they are known."""
    target = NodeForm.from_json(preprocessing).target
    names: dict[str, list[Any]] = {tables.id: list(tables.names)}
    if target is None or target.name not in tables.nodes.columns:
        return names
    texts, codes = tables.nodes.coded(target.name)
    return {**names, target.name: [texts[code] for code in codes]}


def split_of_classes(y: Tensor, what: str) -> list[Tensor]:
    """The masks of training, validation and test: nodes with a class, split by a fixed seed and stratified."""
    known = np.flatnonzero(y.numpy() >= 0)
    order = known[stratified_order(y.numpy()[known], seed=0)]
    return [mask_of(rows, len(y)) for rows in cut(order, three_counts(len(known), what))]


def mask_of(rows: Tensor, nodes: int) -> Tensor:
    """The mask of the nodes with these numbers."""
    return torch.zeros(nodes, dtype=torch.bool).index_fill(0, rows, True)


def _split_by(tables: GraphTables, split: str, y: Tensor) -> list[Tensor | None]:
    """The masks of the nodes that a column counts to each split, of which only those to validate and test may lack."""
    texts, codes = tables.nodes.coded(split)
    said = np.array([PARTS.get(text.lower(), "" if not text else "?") for text in texts])[codes]
    if (strange := said == "?").any():
        row = int(strange.argmax())
        problem = f"train, valid, test or nothing was expected, got {tables.nodes.text(row, split)!r}"
        raise tables.nodes.wrong(row, split, problem)
    masks = [torch.from_numpy(said == part) & (y >= 0) for part in ("train", "valid", "test")]
    if not bool(masks[0].any()):
        raise DataError(f"{_column(tables, split)} counts no node with a class to train; write 'train' for some")
    return [mask if bool(mask.any()) else None for mask in masks]


def _fit_nodes(features: CsvFile, reading: Reading) -> Table:
    """The preprocessing of the columns of nodes; of words that occur or not, the rarest would count most if scaled."""
    said: Mapping[str, Any] = {name: reading.get(name) for name in ("column", "drop")}
    table = fit_features(features, said)
    return replace(table, columns=tuple(_unless_binary(features, column) for column in table.columns))


def _unless_binary(features: CsvFile, column: Column) -> Column:
    if not isinstance(column, Number):
        return column
    values = features.numbers(column.name)
    binary = (values == 0) | (values == 1) | np.isnan(values)
    return replace(column, mean=0.0, std=1.0) if binary.all() else column


def _classes(tables: GraphTables, target: str) -> Category:
    _, labeled = labeled_rows(tables.nodes, target)
    found = Category.fit(labeled, target)
    if len(found.values) < 2:
        there = f"only the class {found.values[0]!r}" if found.values else "no class"
        raise DataError(f"{_column(tables, target)} has {there}, so there is nothing to learn")
    if 2 * len(found.values) > len(labeled):
        raise DataError(
            f"{_column(tables, target)} has {len(found.values)} different values in {len(labeled)} nodes, so it names "
            "nodes rather than classes of them; choose another target"
        )
    values = [number(text) for text in found.values]
    numeric = all(value is not None for value in values)
    if numeric and not (len(values) <= MOST_CLASSES and all(value is not None and value % 1 == 0 for value in values)):
        raise DataError(
            f"{_column(tables, target)} holds numbers, and models of a graph's nodes predict classes: words, or at "
            f"most {MOST_CLASSES} different whole numbers"
        )
    return found


def _codes(tables: GraphTables, target: Category) -> Tensor:
    """The class of each node, -1 where it is not known."""
    rows, labeled = labeled_rows(tables.nodes, target.name)
    y = torch.full((len(tables.names),), UNKNOWN)
    y[torch.from_numpy(rows)] = torch.from_numpy(target.classes(labeled))
    return y


def _column(tables: GraphTables, name: str) -> str:
    return f"the column {name!r} of {tables.nodes.path}"


def _one_hot(nodes: int) -> Tensor:
    """The identity as a sparse tensor, so that it takes no more room than there are nodes."""
    each = torch.arange(nodes)
    return torch.sparse_coo_tensor(
        torch.stack([each, each]), torch.ones(nodes), (nodes, nodes), check_invariants=True
    ).coalesce()


def _digest(names: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def _edge_features(edges: CsvFile) -> CsvFile:
    return replace(edges, columns={name: cells for name, cells in edges.columns.items() if name != WEIGHT})


def _weights(edges: CsvFile) -> NDArray[np.float32]:
    weights = edges.numbers(WEIGHT)
    right = np.isfinite(weights) & (weights > 0)
    if not right.all():
        row = int(right.argmin())
        raise edges.wrong(
            row, WEIGHT, f"a positive number was expected, got {edges.text(row, WEIGHT) or '(missing)'!r}"
        )
    return weights.astype(np.float32)


def _joined(tables: GraphTables, attributed: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of the edges that count, once for each direction that they lead, and their ends, (2, E)."""
    source, target = tables.ends
    count = max(1, len(tables.names))
    low, high = (source, target) if tables.directed else (np.minimum(source, target), np.maximum(source, target))
    _, first, same = np.unique(low * count + high, return_index=True, return_inverse=True)
    if attributed:
        _check_repeated(tables, first[same])
    rows = np.sort(first)
    back = rows[:0] if tables.directed else rows[source[rows] != target[rows]]  # a self-loop is there already
    ends = np.stack([np.concatenate([source[rows], target[back]]), np.concatenate([target[rows], source[back]])])
    return np.concatenate([rows, back]), ends


def _check_repeated(tables: GraphTables, first: NDArray[np.int64]) -> None:
    """Refuse an edge that is listed again, but for its listing in the other direction with the same values."""
    source, edges = tables.ends[0], tables.edges
    again = np.flatnonzero(first != np.arange(len(first)))
    before = first[again]
    twice = np.full(len(again), True)
    twice[np.unique(before, return_index=True)[1]] = False  # the second listing, which may lead the other way
    twice |= tables.directed | (source[again] == source[before])
    others = {name: _differs(edges, name, again, before) for name in edges.columns}
    wrong = np.logical_or.reduce([twice, *others.values()])
    if not wrong.any():
        return
    place = int(wrong.argmax())
    row, ends = int(again[place]), " to ".join(repr(tables.names[node]) for node in tables.ends[:, again[place]])
    other = next((name for name, differs in others.items() if differs[place]), None)
    remedy = "list it once" if twice[place] else f"list it once, or say {tables.path}:{DIRECTED}"
    raise edges.wrong(
        row,
        other or next(iter(edges.columns)),
        f"the edge from {ends} is there already{f' with another {other}' if other else ''}; {remedy}",
    )


def _differs(edges: CsvFile, name: str, rows: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a column differs in these rows from ``others``."""
    values = edges.numbers(name) if edges.column(name).numeric else edges.coded(name)[1]
    differs: NDArray[np.bool_] = ~np.isclose(values[rows], values[others], rtol=0, atol=0, equal_nan=True)
    return differs
