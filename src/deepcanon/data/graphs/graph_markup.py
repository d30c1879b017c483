"""Graphs in GraphML and GML files, as networkx, Gephi, yEd and igraph write them.

The attributes of nodes and edges are their columns, and the file says whether it is directed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np

from deepcanon.core import DataError, GraphBatch
from deepcanon.core.memory import need
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.graphs.attributes import attributes
from deepcanon.data.graphs.edge_list import GRAPH_FORMS, check_directions
from deepcanon.data.graphs.graph_tables import (
    DIRECTED,
    LINKS,
    UNDIRECTED,
    GraphTables,
    names_of_nodes,
    new_nodes,
    node_data,
)

GRAPHML, GML = ".graphml", ".gml"
NODE = "node"
"""What the names of the nodes are called, which the files do not say."""
BYTES = 30
"""The bytes that a byte of such a file takes while it is read."""


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[GraphBatch]:
    """The graph of a file, with the classes that an attribute of its nodes holds."""
    return node_data(read_markup(path, forms), forms, reading, preprocessing)


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> GraphBatch:
    """Another graph whose nodes and edges have the same attributes."""
    return new_nodes(_new_tables(path, preprocessing), preprocessing, labeled)


def names(path: Path, preprocessing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The names of the nodes, and their classes as far as they are known."""
    return names_of_nodes(_new_tables(path, preprocessing), preprocessing)


def is_markup(path: Path) -> bool:
    """Whether a path is that of a GraphML or GML file, by its name."""
    return path.suffix.lower() in (GRAPHML, GML) and not path.is_dir()


def read_markup(path: Path, forms: tuple[str, ...]) -> GraphTables:
    """The graph of a file as tables of its nodes and edges."""
    check_directions(path, forms)
    graph = _read(path)
    if not len(graph):
        raise DataError(f"{path} has no nodes")
    node_defaults, edge_defaults = (graph.graph.get(f"{part}_default", {}) for part in ("node", "edge"))
    rows = [{**node_defaults, **values} for _, values in graph.nodes(data=True)]
    names = tuple(map(str, graph.nodes))
    number = {node: place for place, node in enumerate(graph.nodes)}
    found = [(number[source], number[target], values) for source, target, values in graph.edges(data=True)]
    values = [{k: v for k, v in {**edge_defaults, **each}.items() if k != "id"} for _, _, each in found]
    edges = [f"edge {names[source]!r} to {names[target]!r}" for source, target, _ in found]
    return GraphTables(
        path=path,
        nodes=attributes(path, rows, [f"node {name!r}" for name in names]),
        id=NODE,
        names=names,
        edges=attributes(path, values, edges),
        ends=np.array([(source, target) for source, target, _ in found], dtype=np.int64).reshape(-1, 2).T.copy(),
        directed=UNDIRECTED not in forms and (DIRECTED in forms or graph.is_directed()),
    )


def _read(path: Path) -> Any:
    """The graph as networkx reads it: the types of attributes are plain, and nothing in a file is executed."""
    import networkx

    try:
        need(BYTES * path.stat().st_size, f"reading {path}", "take a part of the graph")
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not content.strip():
        raise DataError(f"{path} is empty")
    try:
        with warnings.catch_warnings(action="ignore"):  # of ports, which no model reads, and types that are not said
            if path.suffix.lower() == GRAPHML:
                _check_graphml(path, content)
                return networkx.parse_graphml(content.decode())
            return _parse_gml(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{path} is not UTF-8: line {line} has the byte 0x{content[error.start]:02x}") from None
    except (networkx.NetworkXError, ParseError, ExpatError, KeyError, ValueError, TypeError, AttributeError) as error:
        kind = path.suffix[1:].upper() if path.suffix.lower() == GML else "GraphML"
        raise DataError(f"{path} is not a graph in {kind}: {error}") from error


def _parse_gml(text: str) -> Any:
    """The graph of a GML text; nodes are named by their labels, or by their ids where these are missing or repeat."""
    import networkx

    lines = text.splitlines()
    try:
        return networkx.parse_gml(lines)
    except networkx.NetworkXError as error:
        if "label" not in str(error):
            raise
        return networkx.parse_gml(lines, label="id")


def _check_graphml(path: Path, content: bytes) -> None:
    """Refuse entities, which may grow without bound, and edges to nodes that are not there, which networkx adds."""
    parser, nodes = ParserCreate(), set[str]()
    edges: list[tuple[int, str, str]] = []

    def start(name: str, values: Mapping[str, str]) -> None:
        kind = name.rpartition(":")[2]
        if kind == "node":
            if (node := values.get("id", "")) in nodes or not node:
                problem = f"the node {node!r} is there already; list every node once" if node else "a node needs an id"
                raise DataError(f"{path}, line {parser.CurrentLineNumber}: {problem}")
            nodes.add(node)
        elif kind == "edge":
            edges.extend((parser.CurrentLineNumber, end, values.get(end, "")) for end in ("source", "target"))

    def entity(name: str, *_: Any) -> None:
        raise DataError(f"{path}, line {parser.CurrentLineNumber}: entities ({name}) are not read; write them out")

    parser.StartElementHandler, parser.EntityDeclHandler = start, entity
    parser.Parse(content, True)
    for line, end, node in edges:
        if node not in nodes:
            problem = f"there is no node {node!r}; add it, or take the edge out" if node else "it is missing"
            raise DataError(f"{path}, line {line}, {end} of an edge: {problem}")


def _new_tables(path: Path, preprocessing: Mapping[str, Any]) -> GraphTables:
    return read_markup(path, tuple(preprocessing.get("form", "").split(":")))


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return is_markup(path) and LINKS not in forms


GRAPH_MARKUP = FileKind(
    "graph",
    _recognizes,
    load,
    apply,
    takes=frozenset({"target", "split", "column", "drop"}),
    forms=GRAPH_FORMS,
    names=names,
)
