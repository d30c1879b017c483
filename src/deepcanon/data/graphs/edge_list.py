"""Edge lists: a CSV file of edges, and one of nodes.

The ends of an edge are in the columns ``source`` and ``target``, or else in the first two; a column ``weight`` holds
weights, and all others are features of edges. A node is named by the column ``id``, ``node`` or ``node_id``, or else by
the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError, GraphBatch, UsageError
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.graphs.attributes import text_columns
from deepcanon.data.graphs.graph_tables import (
    DIRECTED,
    LINKS,
    PLAIN,
    PLAIN_OF,
    UNDIRECTED,
    GraphTables,
    names_of_nodes,
    new_nodes,
    node_data,
)
from deepcanon.data.tables.csv_file import CsvFile, is_csv, read

ENDS = ("source", "target")
IDS = ("id", "node", "node_id")


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[GraphBatch]:
    """The graph of an edge list, with the classes that a column of its table of nodes holds."""
    data = node_data(read_tables(path, reading.get("nodes"), forms), forms, reading, preprocessing)
    return replace(data, reading={"nodes": absolute(reading)})


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> GraphBatch:
    """Another graph with the same columns; without a table of nodes of its own, it joins the nodes of the training."""
    return new_nodes(_new_tables(path, preprocessing), preprocessing, labeled)


def names(path: Path, preprocessing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The names of the nodes, and their classes as far as they are known."""
    return names_of_nodes(_new_tables(path, preprocessing), preprocessing)


def absolute(reading: Mapping[str, Any]) -> str:
    """The path of the table of nodes, by which it is found from any folder."""
    return str(Path(reading["nodes"]).expanduser().resolve())


def read_tables(path: Path, nodes: str | Path | None, forms: tuple[str, ...]) -> GraphTables:
    """The graph of an edge list and a table of nodes; without one, the nodes are those that edges join."""
    check_directions(path, forms)
    if not isinstance(nodes, str | Path | None):
        raise UsageError(f"the nodes of {path} are the path of a CSV file; got {type(nodes).__name__}: write it to one")
    edges, columns = read_edges(path)
    table = _nodes_in(edges, columns) if nodes is None else _read_nodes(path, Path(nodes).expanduser())
    key = next((name for name in IDS if name in table.columns), next(iter(table.columns)))
    index = _index(table, key)
    ends = ends_of(edges, columns, index, table.path)
    rest = {name: cells for name, cells in edges.columns.items() if name not in columns}
    return GraphTables(path, table, key, tuple(index), replace(edges, columns=rest), ends, DIRECTED in forms)


def read_edges(path: Path) -> tuple[CsvFile, tuple[str, str]]:
    """An edge list, and its columns of the nodes that edges lead from and to."""
    edges = read(path, ENDS)
    there = tuple(edges.columns)
    if len(there) < 2:
        raise DataError(f"{path} has one column; an edge list has two for the ends of an edge, source and target")
    return edges, ENDS if set(ENDS) <= set(there) else (there[0], there[1])


def ends_of(edges: CsvFile, columns: tuple[str, str], index: Mapping[str, int], nodes: Path) -> NDArray[np.int64]:
    """The numbers of the nodes at the ends of each edge, (2, edges)."""
    return np.stack([_numbers(edges, column, index, nodes) for column in columns])


def check_directions(path: Path, forms: tuple[str, ...]) -> None:
    """Refuse edges that are to lead one way and both ways."""
    if DIRECTED in forms and UNDIRECTED in forms:
        raise UsageError(f"the edges of {path} are either {DIRECTED} or {UNDIRECTED}; leave one out")


def _read_nodes(path: Path, nodes: Path) -> CsvFile:
    if not is_csv(nodes):
        raise UsageError(f"the nodes of {path} are in a CSV file of their own; got {nodes}")
    return read(nodes)


def _nodes_in(edges: CsvFile, columns: tuple[str, str]) -> CsvFile:
    """The nodes that edges join, in the order in which they occur at either end."""
    texts = dict.fromkeys(text for column in columns for text in edges.coded(column)[0] if text)
    return text_columns(edges.path, {IDS[0]: list(texts)}, [f"node {text!r}" for text in texts])


def _index(table: CsvFile, key: str) -> dict[str, int]:
    """The number of each node by its name; every node has one, and its own."""
    texts, codes = table.coded(key)
    if "" in texts:
        raise table.wrong(int((codes == texts.index("")).argmax()), key, "a node needs a name; give it one")
    if len(texts) < len(codes):
        first = np.full(len(texts), -1)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        row = int((first[codes] != np.arange(len(codes))).argmax())
        known = table.line(int(first[codes[row]]))
        raise table.wrong(row, key, f"the node {texts[codes[row]]!r} is in line {known} already; list every node once")
    return {text: place for place, text in enumerate(texts)}


def _numbers(edges: CsvFile, column: str, index: Mapping[str, int], nodes: Path) -> NDArray[np.int64]:
    """The numbers of the nodes at one end of each edge."""
    texts, codes = edges.coded(column)
    found = np.array([index.get(text, -1) for text in texts])[codes]
    if (unknown := found < 0).any():
        row = int(unknown.argmax())
        text = texts[codes[row]]
        problem = f"there is no node {text!r} in {nodes}; add its row, or take the edge out"
        raise edges.wrong(row, column, problem if text else "an end of the edge is missing; fill it in")
    return found


def _new_tables(path: Path, preprocessing: Mapping[str, Any]) -> GraphTables:
    return read_tables(path, preprocessing["reading"]["nodes"], tuple(preprocessing.get("form", "").split(":")))


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return is_csv(path) and "nodes" in reading and LINKS not in forms


GRAPH_FORMS = {
    DIRECTED: "a graph, whose edges lead one way",
    UNDIRECTED: "a graph, whose edges lead both ways",
    PLAIN: PLAIN_OF,
}

EDGE_LIST = FileKind(
    "graph",
    _recognizes,
    load,
    apply,
    takes=frozenset({"nodes", "target", "split", "column", "drop"}),
    forms=GRAPH_FORMS,
    names=names,
)
