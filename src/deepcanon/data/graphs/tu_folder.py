"""Folders of many graphs, with a class each or none, in the form of the TU collection.

In the folder are, for some name DS, the text files ``DS_A.txt``, the edges, ``DS_graph_indicator.txt``, the graph of
each node, and perhaps ``DS_graph_labels.txt``, the class of each graph, and labels and attributes of nodes and edges:
``DS_node_labels.txt``, ``DS_node_attributes.txt``, ``DS_edge_labels.txt``, ``DS_edge_attributes.txt``. Nodes and graphs
are numbered from 1 on, and an undirected edge is listed both ways. Labels become one-hot features, attributes are
standardized; without either, every node has the feature 1.

    TUDataset (Morris et al., 2020), https://arxiv.org/abs/2007.08663
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, Graph, Graphs, LabeledGraphs
from deepcanon.core.memory import need
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.graphs.attributes import Attributes, text_columns
from deepcanon.data.graphs.graph_tables import PLAIN, PLAIN_OF, NodeForm
from deepcanon.data.split import cut, stratified_order, three_counts
from deepcanon.data.tables.table import Table
from deepcanon.data.tables.table_columns import Category, Number

EDGES, OWNERS = "A", "graph_indicator"
GRAPH, LABEL = "graph", "label"
"""What the numbers of graphs and their classes are called in a table of predictions."""
BYTES = 40
"""The bytes that a byte of such a file takes while it is read."""


@dataclass(frozen=True)
class Folder:
    """The files of a folder: the edges, (2, E) from 0 on, the number of nodes of each graph, and the tables."""

    path: Path
    edges: NDArray[np.int64]
    sizes: tuple[int, ...]
    of_nodes: Attributes
    of_edges: Attributes
    of_graphs: Attributes

    def graph(self, features: Table | None) -> Graph:
        owner = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return graph_by_graph(self.edges, owner, None if features is None else features.x(self.of_edges))


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[Graphs]:
    """The graphs of a folder, split by a fixed seed and stratified by class, if they have classes."""
    folder = _read(path)
    target = _classes(folder)
    y = np.zeros(len(folder.sizes), dtype=np.int64) if target is None else target.classes(folder.of_graphs)
    parts = cut(stratified_order(y, seed=0), three_counts(len(y), str(path)))
    form = NodeForm.from_json(preprocessing) if preprocessing else _fit(folder, target, parts[0], PLAIN in forms)
    whole = _batch(folder, form)
    train, valid, test = (whole.part(part) for part in parts)
    sizes = {"features": whole.x.shape[1]}
    if form.target is not None:
        sizes["classes"] = len(form.target.values)
    if whole.graph.edge_features is not None:
        sizes["edge_features"] = whole.graph.edge_features.shape[1]
    return Dataset(
        name=":".join([str(path), *forms]),
        kind="graphs",
        train=train,
        valid=valid,
        test=test,
        sizes=sizes,
        shape=(whole.x.shape[1],),
        labels=() if form.target is None else form.target.values,
        source=str(path.resolve()),
        preprocessing={"graph": form.as_json()} | ({"form": PLAIN} if forms else {}),
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Graphs:
    """All graphs of a folder, with labels if they are to be labeled and the folder has them."""
    folder, form = _read(path), NodeForm.from_json(preprocessing)
    return _batch(folder, form if labeled and folder.of_graphs.columns else replace(form, target=None))


def names(path: Path, preprocessing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The numbers of the graphs, and their classes where they are known."""
    folder = _read(path)
    known = {LABEL: list(_column_texts(folder.of_graphs, LABEL))} if folder.of_graphs.columns else {}
    return {GRAPH: list(range(1, len(folder.sizes) + 1)), **known}


def graph_by_graph(edges: NDArray[np.int64], owner: NDArray[np.int64], features: Tensor | None) -> Graph:
    """The union of the graphs that ``owner`` says of each node, with the edges, (2, E), listed graph by graph."""
    order = np.argsort(owner[edges[0]], kind="stable")
    return Graph(
        torch.from_numpy(edges[:, order].copy()),
        len(owner),
        parts=tuple(np.bincount(owner).tolist()),
        edge_features=None if features is None else features[torch.from_numpy(order)],
    )


def is_tu_folder(path: Path) -> bool:
    """Whether a folder holds many graphs, by the names of its files."""
    return path.is_dir() and _stem(path) is not None


def _stem(path: Path) -> str | None:
    """What the names of the files in a folder begin with."""
    found = sorted(file.name.removesuffix(f"_{EDGES}.txt") for file in path.glob(f"*_{EDGES}.txt"))
    return next((stem for stem in found if (path / f"{stem}_{OWNERS}.txt").is_file()), None)


def _fit(folder: Folder, target: Category | None, train: Tensor, plain: bool) -> NodeForm:
    """The preprocessing of the folder, fitted on the training graphs; all labels are known."""
    graph = folder.graph(None)
    nodes = graph.rows(train).numpy()
    used = np.isin(np.repeat(np.arange(len(folder.sizes)), folder.sizes)[folder.edges[0]], train.numpy())
    return NodeForm(
        nodes=_table(folder.of_nodes, nodes),
        edges=_table(folder.of_edges, np.flatnonzero(used)) if folder.of_edges.columns and not plain else None,
        weighted=False,
        target=target,
    )


def _table(file: Attributes, rows: NDArray[np.int64]) -> Table:
    columns = [
        Category.fit(file, name) if name.startswith(LABEL) else Number.fit(file.rows(rows), name)
        for name in file.columns
    ]
    return Table(tuple(columns), None)


def _classes(folder: Folder) -> Category | None:
    """The classes of the graphs, if they have any."""
    if not folder.of_graphs.columns:
        return None
    found = Category.fit(folder.of_graphs, LABEL)
    if "" in found.values:
        row = _column_texts(folder.of_graphs, LABEL).index("")
        raise folder.of_graphs.wrong(row, LABEL, "the class is missing; fill it in, or take the graph out")
    if len(found.values) < 2:
        raise DataError(f"every graph of {folder.path} has the class {found.values[0]!r}, so there is nothing to learn")
    return found


def _batch(folder: Folder, form: NodeForm) -> Graphs:
    x = form.nodes.x(folder.of_nodes) if form.nodes.columns else torch.ones(sum(folder.sizes), 1)
    graph = folder.graph(form.edges)
    if form.target is None:
        return Graphs(x, graph)
    return LabeledGraphs(x, torch.from_numpy(form.target.classes(folder.of_graphs)), graph)


def _read(path: Path) -> Folder:
    stem = _stem(path)
    files = {file.name: file for file in path.glob(f"{stem}_*.txt")}
    need(BYTES * sum(file.stat().st_size for file in files.values()), f"reading {path}", "take fewer graphs")

    def file(name: str) -> Path:
        return path / f"{stem}_{name}.txt"

    owner = _whole_numbers(file(OWNERS), 1)[:, 0]
    for line, (graph, before) in enumerate(zip(owner.tolist(), [0, *owner.tolist()], strict=False), start=1):
        if graph not in (before, before + 1) or graph < 1:
            raise DataError(
                f"{file(OWNERS)}, line {line}: nodes are listed graph by graph from 1 on; after {before} came {graph}"
            )
    edges = _whole_numbers(file(EDGES), 2) - 1
    outside = (edges < 0) | (edges >= len(owner))
    if outside.any():
        line, node = int(outside.any(1).argmax()), int(edges[outside][0]) + 1
        raise DataError(f"{file(EDGES)}, line {line + 1}: there is no node {node}; there are {len(owner)}")
    across = owner[edges[:, 0]] != owner[edges[:, 1]]
    if across.any():
        line = int(across.argmax())
        a, b = (edges[line] + 1).tolist()
        raise DataError(f"{file(EDGES)}, line {line + 1}: an edge joins the nodes {a} and {b} of two graphs")
    sizes = tuple(np.bincount(owner)[1:].tolist())
    return Folder(
        path,
        edges.T.copy(),
        sizes,
        *(
            _columns(path, noun, count, {kind: file(f"{noun}_{kind}s") for kind in kinds})
            for noun, count, kinds in (
                ("node", len(owner), (LABEL, "attribute")),
                ("edge", len(edges), (LABEL, "attribute")),
                ("graph", len(sizes), (LABEL,)),
            )
        ),
    )


def _columns(path: Path, noun: str, count: int, files: Mapping[str, Path]) -> Attributes:
    """The labels and attributes of nodes, edges or graphs as columns; of several labels each is one."""
    columns: dict[str, list[str]] = {}
    for kind, file in files.items():
        if not file.is_file():
            continue
        rows = _rows(file)
        if len(rows) != count:
            raise DataError(f"{file} has {len(rows)} lines, but there are {count} {noun}s")
        for place, column in enumerate(zip(*rows, strict=True), start=1):
            columns[kind if len(rows[0]) == 1 else f"{kind} {place}"] = list(column)
    return text_columns(path, columns, [f"{noun} {place}" for place in range(1, count + 1)])


def _rows(file: Path) -> list[list[str]]:
    """The values of each line of a file, as many in every one."""
    try:
        content = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read as text: {error}") from error
    rows = [[cell.strip() for cell in line.split(",")] for line in content.rstrip().splitlines()]
    if not rows:
        raise DataError(f"{file} is empty")
    for line, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise DataError(f"{file}, line {line} has {len(row)} values, but the first line has {len(rows[0])}")
    return rows


def _whole_numbers(file: Path, columns: int) -> NDArray[np.int64]:
    rows = _rows(file)
    for line, row in enumerate(rows, start=1):
        if len(row) != columns or not all(cell.lstrip("-").isdecimal() and len(cell) < 19 for cell in row):
            wanted = "two whole numbers were" if columns == 2 else "a whole number was"
            raise DataError(f"{file}, line {line}: {wanted} expected, got {', '.join(row)!r}")
    return np.array(rows, dtype=np.int64)


def _column_texts(file: Attributes, name: str) -> list[str]:
    texts, codes = file.coded(name)
    return [texts[code] for code in codes]


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return is_tu_folder(path)


TU_FOLDER = FileKind("graphs", _recognizes, load, apply, forms={PLAIN: PLAIN_OF}, names=names)
