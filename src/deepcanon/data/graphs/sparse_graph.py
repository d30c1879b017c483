"""Graphs as sparse matrices in ``.npz`` files, the form of the usual benchmarks.

``adj_data``, ``adj_indices``, ``adj_indptr`` and ``adj_shape`` are the adjacency matrix in compressed rows, the same
parts of ``attr`` the features of the nodes, which are taken as they are, ``labels`` their classes, below 0 where these
are not known. ``class_names`` and ``node_names`` may name them.

    Pitfalls of Graph Neural Network Evaluation (Shchur et al., 2018), https://arxiv.org/abs/1811.05868
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, Graph, GraphBatch
from deepcanon.core.memory import need
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.graphs.graph_tables import DIRECTED, UNKNOWN, split_of_classes

SUFFIX = ".npz"
PARTS = ("data", "indices", "indptr", "shape")
NODE, CLASS = "node", "class"
"""What the names of nodes and their classes are called in a table of predictions."""


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[GraphBatch]:
    """The graph of a file; nodes with a class are split by a fixed seed, stratified by class."""
    arrays = _read(path)
    x, y, graph = _features(path, arrays), _labels(path, arrays), _graph(path, arrays, DIRECTED in forms)
    if y is None:
        raise DataError(f"{path} has no array 'labels', the classes of the nodes")
    names = _class_names(arrays, y)
    if preprocessing is not None:
        names = tuple(preprocessing.get("classes", ()))
        _check_known(path, y, names)
    if len(names) < 2:
        raise DataError(f"{path}: there are fewer than two classes in the labels, so there is nothing to learn")
    masks = split_of_classes(y, f"the labels of {path}")
    train, valid, test = (GraphBatch(x=x, y=y, mask=mask, graph=graph) for mask in masks)
    return Dataset(
        name=":".join([str(path), *forms]),
        kind="graph",
        train=train,
        valid=valid,
        test=test,
        sizes={"nodes": graph.nodes, "features": x.shape[1], "classes": len(names)},
        shape=(x.shape[1],),
        labels=names,
        source=str(path.resolve()),
        preprocessing={"classes": list(names)} | ({"form": ":".join(forms)} if forms else {}),
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> GraphBatch:
    """Another graph whose nodes have the same features."""
    arrays = _read(path)
    graph = _graph(path, arrays, DIRECTED in preprocessing.get("form", "").split(":"))
    y = _labels(path, arrays) if labeled else torch.full((graph.nodes,), UNKNOWN)
    if y is None or (labeled and not bool((y >= 0).any())):
        raise DataError(f"{path} has no array 'labels' with classes of nodes, so there is nothing to compare with")
    _check_known(path, y, preprocessing["classes"])
    return GraphBatch(x=_features(path, arrays), y=y, mask=y >= 0, graph=graph)


def names(path: Path, preprocessing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The names of the nodes, or their numbers, and their classes as far as they are known."""
    arrays = _read(path)
    y, classes = _labels(path, arrays), preprocessing["classes"]
    texts = _texts(arrays, "node_names")
    count = int(arrays["adj_shape"][0])
    named: dict[str, list[Any]] = {NODE: list(texts) if texts and len(texts) == count else list(range(count))}
    return named if y is None else {**named, CLASS: ["" if c < 0 else classes[c] for c in y.tolist()]}


def is_sparse_graph(path: Path) -> bool:
    """Whether a file is an archive of arrays with an adjacency matrix among them."""
    if path.suffix.lower() != SUFFIX or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {f"adj_{part}.npy" for part in PARTS} <= set(archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file that are of numbers or texts; arrays of objects, which are pickles, are never read."""
    try:
        with zipfile.ZipFile(path) as archive:
            need(2 * sum(info.file_size for info in archive.infolist()), f"reading {path}", "take a part of the graph")
        with np.load(path) as stored:  # which refuses pickles unless they are asked for
            wanted = [name for name in stored.files if name.startswith(("adj_", "attr_")) or name == "labels"]
            return {name: stored[name] for name in wanted} | _names_in(stored)
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, EOFError) as error:
        raise DataError(f"{path} is not a graph in sparse matrices: {error}") from error


def _names_in(stored: Any) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for name in ("class_names", "node_names"):
        if name in stored.files:
            try:
                found[name] = stored[name]
            except ValueError:  # objects: numbers stand for the names
                continue
    return found


def _texts(arrays: Mapping[str, NDArray[Any]], name: str) -> tuple[str, ...] | None:
    return tuple(map(str, arrays[name].tolist())) if name in arrays and arrays[name].ndim == 1 else None


def _matrix(path: Path, arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
    """A matrix in compressed rows, in coordinates, its entries checked."""
    from scipy.sparse import csr_array

    try:
        data, indices, indptr, shape = (arrays[f"{name}_{part}"] for part in PARTS)
        matrix = csr_array((np.asarray(data, dtype=np.float32), indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format()
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(
            f"{path}: {name}_data, _indices, _indptr and _shape do not make a sparse matrix: {error}"
        ) from error
    if not np.isfinite(matrix.data).all():
        raise DataError(f"{path}: {name}_data has NaN or infinite values; mend or remove them first")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix.tocoo()


def _graph(path: Path, arrays: Mapping[str, NDArray[Any]], directed: bool) -> Graph:
    """The graph of the adjacency matrix, whose rows are the sources; in both directions, unless it is directed."""
    matrix = _matrix(path, arrays, "adj")
    nodes, columns = matrix.shape
    if nodes != columns or not nodes:
        raise DataError(f"{path}: an adjacency matrix is square; adj_shape is {nodes} x {columns}")
    if matrix.data.min(initial=1) <= 0:
        raise DataError(f"{path}: weights of edges are positive; adj_data has {matrix.data.min():.3g}")
    if not directed:
        rows = matrix.tocsr()
        back = rows.T.tocsr()
        differs = (rows.multiply(back > 0) != back.multiply(rows > 0)).tocoo()
        if differs.nnz:
            source, target = int(differs.row[0]), int(differs.col[0])
            raise DataError(
                f"{path}: the edge from node {source} to {target} has another weight than that from {target} to "
                f"{source}; say {path}:{DIRECTED}"
            )
        matrix = rows.maximum(back).tocoo()
    edge_index = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    weighted = not np.all(matrix.data == 1)
    return Graph(edge_index, nodes, torch.from_numpy(matrix.data.astype(np.float32)) if weighted else None)


def _features(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Tensor:
    """The features of the nodes as a sparse tensor."""
    nodes = int(arrays["adj_shape"][0])
    if "attr_data" not in arrays:
        raise DataError(f"{path} has no attr_data, attr_indices, attr_indptr and attr_shape, the features of the nodes")
    matrix = _matrix(path, arrays, "attr")
    if matrix.shape[0] != nodes or not matrix.shape[1]:
        raise DataError(f"{path}: {nodes} nodes need as many rows of features; attr_shape is {tuple(matrix.shape)}")
    indices = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    return torch.sparse_coo_tensor(
        indices, torch.from_numpy(matrix.data), tuple(matrix.shape), check_invariants=True
    ).coalesce()


def _labels(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Tensor | None:
    """The classes of the nodes, -1 where they are not known."""
    if "labels" not in arrays:
        return None
    labels, nodes = arrays["labels"], int(arrays["adj_shape"][0])
    if labels.shape != (nodes,) or labels.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {nodes} nodes need as many labels, whole numbers; got {labels.dtype} of the shape {labels.shape}"
        )
    return torch.from_numpy(np.maximum(labels.astype(np.int64), UNKNOWN))


def _check_known(path: Path, y: Tensor, classes: Sequence[str]) -> None:
    if int(y.max()) >= len(classes):
        raise DataError(f"{path} has the class {int(y.max())}; the model predicts {len(classes)}, from 0 on")


def _class_names(arrays: Mapping[str, NDArray[Any]], y: Tensor) -> tuple[str, ...]:
    count = int(y.max()) + 1
    names = _texts(arrays, "class_names")
    return names if names and len(names) == count else tuple(map(str, range(count)))


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return is_sparse_graph(path)


SPARSE_GRAPH = FileKind(
    "graph", _recognizes, load, apply, forms={DIRECTED: "a graph, whose edges lead one way"}, names=names
)
