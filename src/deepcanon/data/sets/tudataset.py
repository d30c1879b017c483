"""Molecules as graphs, from the collection of the TU Dortmund: PROTEINS and MUTAG."""

from __future__ import annotations

import hashlib
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, LabeledGraphs
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import BROKEN_ARCHIVE, VARIABLE, Remote, RemoteFile, data_folders
from deepcanon.data.entry import Entry
from deepcanon.data.graphs.tu_folder import graph_by_graph
from deepcanon.data.split import cut, stratified_order

SHA256 = {
    "proteins": "40a7d16cf167c8b5aadc4f41f475a894fab4ee05980992d90965fb6e60fba7f4",
    "mutag": "64e29b389ff68eb9cb6d3fe1647e8364c090a8c0736e9527f7ad94fecd409ab9",
}
"""The hashes of all tables that are read, as whole numbers of 64 bits, whatever zip they come in."""
TABLES = ("A", "graph_indicator", "graph_labels", "node_labels")


def load(entry: Entry) -> Dataset[LabeledGraphs]:
    """Fixed splits, stratified by class; the label of a node or of an edge is its feature, one-hot."""
    whole = read(entry)
    parts = cut(stratified_order(whole.y.numpy(), seed=0), entry.counts)
    return entry.dataset(*(whole.select(part) for part in parts))


def read(entry: Entry) -> LabeledGraphs:
    """All graphs in the order of the files."""
    (file,) = entry.remote.files
    path = entry.remote.find(file)
    if path is None:
        raise DataError(
            f"{entry.name} is not there; put {file.name} of the TU collection (Morris et al., 2020), which "
            f"https://www.chrsmrrs.com/graphkerneldatasets has, into {data_folders()[0] / str(entry.remote.folder)} "
            f"(another folder: set {VARIABLE})"
        )
    found = _columns(path)
    if hashlib.sha256(b"".join(column.tobytes() for column in found.values())).hexdigest() != SHA256[entry.name]:
        raise DataError(f"{path} does not hold the published graphs; replace the file")
    edges, owner, of_edges = found["A"] - 1, found["graph_indicator"][:, 0] - 1, found.get("edge_labels")
    graph = graph_by_graph(edges.T, owner, None if of_edges is None else _one_hot(of_edges))
    y = np.unique(found["graph_labels"], return_inverse=True)[1].ravel()
    return LabeledGraphs(x=_one_hot(found["node_labels"]), y=torch.from_numpy(y.astype(np.int64)), graph=graph)


def _columns(path: Path) -> dict[str, NDArray[np.int64]]:
    """The tables of whole numbers in the archive by the ends of their names; labels of edges are not always there."""
    try:
        with ZipFile(path) as archive:
            there = {Path(name).stem.partition("_")[2]: name for name in archive.namelist() if name.endswith(".txt")}
            asked = [*TABLES, *(["edge_labels"] if "edge_labels" in there else [])]
            return {name: _numbers(archive.read(there[name])) for name in asked}
    except BROKEN_ARCHIVE as error:
        raise DataError(f"{path} is not a zip of a TU data set: {error}") from error


def _numbers(text: bytes) -> NDArray[np.int64]:
    return np.loadtxt(text.decode("ascii").splitlines(), dtype=np.int64, delimiter=",", ndmin=2)


def _one_hot(labels: NDArray[np.int64]) -> Tensor:
    kinds = torch.from_numpy(labels.ravel())
    return torch.eye(int(kinds.max()) + 1)[kinds]


def _remote(name: str, size: int, sha256: str) -> Remote:
    return Remote(folder="tudataset", files=(RemoteFile(f"{name}.zip", size, sha256),))


PROTEINS = Entry(
    name="proteins",
    kind="graphs",
    shape=(3,),
    sizes={"features": 3, "classes": 2},
    counts=(779, 111, 223),
    source="enzymes and other proteins, pieces of their structure as nodes (Borgwardt et al., 2005), TU collection",
    load=load,
    labels=("enzyme", "other"),
    remote=_remote("PROTEINS", 453976, "067d493b69e413c614a1d8cd7f38063a0975b8301e16957856416a43834a35b7"),
)

MUTAG = Entry(
    name="mutag",
    kind="graphs",
    shape=(7,),
    sizes={"features": 7, "classes": 2, "edge_features": 4},
    counts=(131, 19, 38),
    source="molecules that cause mutations or not, by their atoms and bonds (Debnath et al., 1991), TU collection",
    load=load,
    labels=("no mutation", "mutation"),
    remote=_remote("MUTAG", 24073, "0960a360394127eddab921002fd51d91252bc13c26fb8b58e40b6da86cf3571a"),
)
