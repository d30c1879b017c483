"""Links of a graph, ``FILE:links``: some edges are hidden, to be told from pairs of nodes that no edge joins.

The graph that a model sees holds the training edges only, so that what is to be predicted is never seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, Graph, LabeledPairs, UsageError
from deepcanon.core.memory import need
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.graphs.edge_list import absolute, ends_of, read_edges, read_tables
from deepcanon.data.graphs.graph_markup import is_markup, read_markup
from deepcanon.data.graphs.graph_tables import LINKS, PLAIN, PLAIN_OF, UNDIRECTED, GraphTables, NodeForm
from deepcanon.data.split import cut, fixed_random, three_counts
from deepcanon.data.tables.csv_file import is_csv

LABELS = ("no link", "link")


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[LabeledPairs]:
    """The edges of a graph, split by a fixed seed, with as many pairs of nodes that no edge joins."""
    tables = _tables(path, reading)
    form = NodeForm.from_json(preprocessing) if preprocessing else NodeForm.fit(tables, None, reading, PLAIN in forms)
    edges, parts = _split(tables)
    apart = strangers(fixed_random(0), edges, len(tables.names))
    x, graph = _features(form, tables), _known(form, tables, edges[:, parts[0]])
    train, valid, test = (_pairs(x, graph, edges[:, rows], apart[:, rows]) for rows in parts)
    sizes = {"nodes": graph.nodes, "features": x.shape[1], "classes": len(LABELS)}
    if graph.edge_features is not None:
        sizes["edge_features"] = graph.edge_features.shape[1]
    return Dataset(
        name=":".join([str(path), *forms]),
        kind="graphs",
        train=train,
        valid=valid,
        test=test,
        sizes=sizes,
        shape=(x.shape[1],),
        labels=LABELS,
        source=str(path.resolve()),
        reading={"nodes": absolute(reading)} if "nodes" in reading else {},
        preprocessing={"graph": form.as_json(), "form": ":".join(forms)},
        remarks=form.remarks(),
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> LabeledPairs:
    """The pairs of nodes in the rows of a CSV file, or the edges of the graph, each of which may be a link or not."""
    if labeled:
        raise UsageError(
            f"what {path} holds are pairs without an answer; measure the model on the data of its training"
        )
    form, tables = NodeForm.from_json(preprocessing), _own_tables(preprocessing)
    ends = torch.from_numpy(_asked(path, tables)[1])
    edges, parts = _split(tables)
    x, graph = _features(form, tables), _known(form, tables, edges[:, parts[0]])
    return LabeledPairs(x=x, y=torch.zeros(ends.shape[1], dtype=torch.long), graph=graph, pairs=ends)


def names(path: Path, preprocessing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The names of both nodes of each pair."""
    tables = _own_tables(preprocessing)
    columns, ends = _asked(path, tables)
    return {column: [tables.names[node] for node in nodes] for column, nodes in zip(columns, ends, strict=True)}


def strangers(random: np.random.RandomState, edges: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """As many pairs of nodes that no edge joins as there are edges, each once, from the smaller number to the larger.

    >>> strangers(np.random.RandomState(0), np.array([[0, 1], [1, 2]]), 4).T.tolist()
    [[0, 2], [0, 3]]
    """
    wanted, joined = edges.shape[1], np.unique(edges[0] * nodes + edges[1])
    if nodes * (nodes - 1) // 2 - len(joined) < wanted:
        raise DataError(
            f"{len(joined)} pairs of {nodes} nodes are joined by an edge, and fewer are not: too few to compare with"
        )
    found = np.empty((2, 0), dtype=np.int64)
    while found.shape[1] < wanted:
        a, b = random.randint(nodes, size=(2, 4 * wanted))
        free = ~np.isin(np.minimum(a, b) * nodes + np.maximum(a, b), joined)
        found = different(np.append(found[0], a[free]), np.append(found[1], b[free]), wanted, nodes)
    return found


def different(a: NDArray[np.int64], b: NDArray[np.int64], count: int, nodes: int) -> NDArray[np.int64]:
    """The first so many pairs of different nodes, each once, from the smaller number to the larger."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    _, first = np.unique(low * nodes + high, return_index=True)
    kept = np.sort(first[(low != high)[first]])[:count]
    return np.stack([low[kept], high[kept]])


def _tables(path: Path, reading: Mapping[str, Any]) -> GraphTables:
    """The graph of a file, whose edges lead both ways; without a table, its nodes are those that edges join."""
    if is_markup(path):
        return read_markup(path, (UNDIRECTED,))
    return read_tables(path, reading.get("nodes"), ())


def _own_tables(preprocessing: Mapping[str, Any]) -> GraphTables:
    """The graph that a model has learned from."""
    return _tables(Path(preprocessing["source"]), preprocessing.get("reading", {}))


def _asked(path: Path, tables: GraphTables) -> tuple[tuple[str, str], NDArray[np.int64]]:
    """The names of the columns, and the numbers of the nodes, of the pairs that are asked for."""
    if is_markup(path):
        if path.resolve() != tables.path.resolve():
            raise UsageError(f"name the pairs to predict in a CSV file; {path} is another graph")
        return ("source", "target"), tables.ends
    pairs, columns = read_edges(path)
    index = {name: place for place, name in enumerate(tables.names)}
    return columns, ends_of(pairs, columns, index, tables.nodes.path)


def _split(tables: GraphTables) -> tuple[NDArray[np.int64], list[Tensor]]:
    """The edges, each once and without self-loops, and which are in the training, validation and test split."""
    source, target = tables.ends
    edges = different(source, target, len(source), len(tables.names))
    counts = three_counts(edges.shape[1], f"the edge list of {tables.path}")
    return edges, cut(fixed_random(0).permutation(edges.shape[1]), counts)


def _known(form: NodeForm, tables: GraphTables, train: NDArray[np.int64]) -> Graph:
    """The graph of the training edges, (2, edges)."""
    nodes, (low, high) = len(tables.names), np.sort(tables.ends, axis=0)
    rows = np.flatnonzero(np.isin(low * nodes + high, train[0] * nodes + train[1]))
    return form.graph(replace(tables, edges=tables.edges.rows(rows), ends=tables.ends[:, rows]))


def _features(form: NodeForm, tables: GraphTables) -> Tensor:
    if form.identity:
        need(4 * len(tables.names) ** 2, f"one-hot features of {len(tables.names):,} nodes", "give a table of nodes")
    return form.x(tables).to_dense()


def _pairs(x: Tensor, graph: Graph, edges: NDArray[np.int64], apart: NDArray[np.int64]) -> LabeledPairs:
    pairs = torch.from_numpy(np.concatenate([apart, edges], 1))
    y = torch.arange(2).repeat_interleave(torch.tensor([apart.shape[1], edges.shape[1]]))
    return LabeledPairs(x=x, y=y, graph=graph, pairs=pairs)


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return LINKS in forms and (is_csv(path) or is_markup(path))


GRAPH_LINKS = FileKind(
    "graphs",
    _recognizes,
    load,
    apply,
    takes=frozenset({"nodes", "column", "drop"}),
    forms={LINKS: "an edge list or a graph", PLAIN: PLAIN_OF},
    names=names,
)
