"""Graphs in archives of sparse matrices: the matrices are SciPy's, and no pickle is ever loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from deepcanon.core import DataError, GraphBatch, UsageError
from deepcanon.data import load_data, load_rows, row_names

NODES = 30


def parts(matrix: Any, name: str) -> dict[str, Any]:
    return {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}


def arrays(symmetric: bool = False) -> dict[str, Any]:
    random = np.random.default_rng(0)
    adjacency = csr_array(random_array((NODES, NODES), density=0.1, rng=random).astype(bool).astype(np.float32))
    if symmetric:
        adjacency = csr_array(adjacency.maximum(adjacency.T))
    words = csr_array(random_array((NODES, 7), density=0.4, rng=random), dtype=np.float32)
    labels = np.where(np.arange(NODES) % 5 == 4, -1, np.arange(NODES) % 3)
    return {**parts(adjacency, "adj"), **parts(words, "attr"), "labels": labels}


def dense(content: dict[str, Any], name: str) -> Any:
    data, indices, indptr, shape = (content[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    return csr_array((data, indices, indptr), shape=tuple(shape)).toarray()


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_matrices_are_those_of_scipy(tmp_path: Path, symmetric: bool) -> None:
    content = arrays(symmetric)
    np.savez(tmp_path / "graph.npz", **content)
    data = load_data(tmp_path / "graph.npz")
    expected = dense(content, "adj")
    found = data.train.graph.operator("adjacency").to_dense().numpy()
    assert np.array_equal(found, np.maximum(expected, expected.T))
    assert data.train.graph.weight is None
    assert np.array_equal(data.train.x.to_dense().numpy(), dense(content, "attr"))
    assert dict(data.sizes) == {"nodes": NODES, "features": 7, "classes": 3}
    assert data.train.y.tolist() == content["labels"].tolist()
    masks = torch.stack([data.split(name).mask for name in ("train", "valid", "test")])
    assert torch.equal(masks.sum(0), torch.from_numpy((content["labels"] >= 0).astype(np.int64)))
    directed = load_data(f"{tmp_path / 'graph.npz'}:directed").train.graph
    assert np.array_equal(directed.operator("adjacency").to_dense().numpy(), expected.T)


def test_names_are_read_unless_they_are_objects(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return pytest.fail, ("a pickle was loaded",)

    trap = np.array([Trap()], dtype=object)
    names: dict[str, Any] = {
        "class_names": np.array(["x", "y", "z"]),
        "node_names": np.array([f"n{i}" for i in range(NODES)]),
    }
    np.savez(tmp_path / "graph.npz", **arrays(), **names, idx_to_class=trap)
    data = load_data(tmp_path / "graph.npz")
    assert data.labels == ("x", "y", "z")
    saved = {"classes": list(data.labels), **data.preprocessing}
    found = row_names(str(tmp_path / "graph.npz"), saved, {})
    assert found["node"][:2] == ["n0", "n1"]
    assert found["class"][:5] == ["x", "y", "z", "x", ""]
    np.savez(tmp_path / "graph.npz", **arrays(), class_names=trap)
    assert load_data(tmp_path / "graph.npz").labels == ("0", "1", "2")
    np.savez(tmp_path / "graph.npz", **(arrays() | {"labels": trap}))
    with pytest.raises(DataError, match="is not a graph in sparse matrices: Object arrays cannot be loaded"):
        load_data(tmp_path / "graph.npz")


def test_another_graph_is_read_for_a_model(tmp_path: Path) -> None:
    np.savez(tmp_path / "graph.npz", **arrays())
    saved = load_data(tmp_path / "graph.npz").preprocessing
    without = {name: value for name, value in arrays().items() if name != "labels"}
    np.savez(tmp_path / "new.npz", **without)
    rows = load_rows(str(tmp_path / "new.npz"), saved, labeled=False)
    assert isinstance(rows, GraphBatch)
    assert not rows.mask.any()
    with pytest.raises(DataError, match="no array 'labels' with classes of nodes, so there is nothing to compare"):
        load_rows(str(tmp_path / "new.npz"), saved)
    np.savez(tmp_path / "new.npz", **without, labels=np.arange(NODES))
    with pytest.raises(DataError, match="has the class 29; the model predicts 3"):
        load_rows(str(tmp_path / "new.npz"), saved)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"labels": None}, "has no array 'labels'"),
        ({"labels": np.zeros(NODES, dtype=int)}, "there are fewer than two classes in the labels"),
        (
            {"labels": np.zeros(3, dtype=int)},
            r"30 nodes need as many labels, whole numbers; got int64 of the shape \(3,",
        ),
        ({"labels": np.zeros(NODES)}, "30 nodes need as many labels, whole numbers; got float64"),
        ({"attr_data": None}, "has no attr_data"),
        ({"attr_indices": None}, "attr_data, _indices, _indptr and _shape do not make a sparse matrix"),
        ({"attr_shape": np.array([4, 7])}, "attr_data, _indices, _indptr and _shape do not make a sparse matrix"),
        (
            {"adj_indices": arrays()["adj_indices"] + 100},
            "adj_data, _indices, _indptr and _shape do not make a sparse matrix",
        ),
        ({"adj_data": -arrays()["adj_data"]}, "weights of edges are positive; adj_data has -1"),
        ({"adj_data": arrays()["adj_data"] * np.nan}, "adj_data has NaN or infinite values"),
        ({"adj_shape": np.array([30, 31])}, "an adjacency matrix is square; adj_shape is 30 x 31"),
    ],
)
def test_a_wrong_array_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    content = {name: value for name, value in (arrays() | change).items() if value is not None}
    np.savez(tmp_path / "graph.npz", **content)
    with pytest.raises(DataError, match=problem):
        load_data(tmp_path / "graph.npz")


def test_weights_that_differ_by_direction_need_a_directed_graph(tmp_path: Path) -> None:
    content = arrays(symmetric=True)
    np.savez(tmp_path / "graph.npz", **(content | {"adj_data": 1.0 + np.arange(len(content["adj_data"]))}))
    with pytest.raises(DataError, match=r"the edge from node \d+ to \d+ has another weight than .*; say .*:directed"):
        load_data(tmp_path / "graph.npz")
    assert load_data(f"{tmp_path / 'graph.npz'}:directed").train.graph.weight is not None
    with pytest.raises(UsageError, match="leave out the target"):
        load_data(tmp_path / "graph.npz", target="labels")
