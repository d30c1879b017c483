"""Cora: papers on machine learning and their citations, with the split on which graph neural networks are compared.

The files are those of the Planetoid experiments, which are Python 2 pickles. They are the only pickles that are ever
read here, and by a reader that allows arrays, sparse matrices and lists and calls nothing else.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import DataError, Graph, GraphBatch
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.entry import Entry


def load(entry: Entry) -> Dataset[GraphBatch]:
    """The public split: 20 training nodes of each class, the next 500 nodes for validation, 1,000 others for test.

    The bag of words of a paper is divided by the number of its words, so that each row of features sums to 1.
    """
    from scipy.sparse import coo_array

    *pickled, listed = entry.remote.fetch()
    words, classes, neighbors, test_words, test_classes = (_read(path) for path in pickled)
    test = np.loadtxt(listed, dtype=np.int64, ndmin=1)  # rows of the test files by their nodes, in any order
    nodes, features = entry.sizes["nodes"], entry.sizes["features"]
    if words.shape[1] != features or len(classes) + len(test) > nodes or test.max(initial=-1) >= nodes:
        raise DataError(
            f"{entry.name} must have {nodes} nodes of {features} features; "
            f"its files have {len(classes) + len(test)} of {words.shape[1]}"
        )
    known, tested = words.tocoo(), test_words.tocoo()
    rows = np.concatenate([known.row, test[tested.row]])
    columns, values = (np.concatenate([getattr(part, name) for part in (known, tested)]) for name in ("col", "data"))
    x = _sparse_features(coo_array((values, (rows, columns)), shape=(nodes, features)))
    y = torch.zeros(nodes, dtype=torch.long)  # a node in none of the files has no class, and is in no split
    y[: len(classes)] = torch.from_numpy(classes.argmax(1))
    y[torch.from_numpy(test)] = torch.from_numpy(test_classes.argmax(1))
    graph = Graph(_edges(neighbors), nodes)
    train, valid, _ = entry.counts
    parts = (torch.arange(train), torch.arange(train, train + valid), torch.from_numpy(test))
    masks = (torch.zeros(nodes, dtype=torch.bool).index_fill(0, part, True) for part in parts)
    return entry.dataset(*(GraphBatch(x=x, y=y, mask=mask, graph=graph) for mask in masks))


def _sparse_features(words: Any) -> Tensor:
    """The matrix with rows that sum to 1, or are empty, as a sparse tensor."""
    sums = np.asarray(words.sum(1), dtype=np.float64)
    values = torch.from_numpy((words.data / sums[words.row]).astype(np.float32))
    indices = torch.from_numpy(np.stack([words.row, words.col]).astype(np.int64))
    return torch.sparse_coo_tensor(indices, values, words.shape, check_invariants=True).coalesce()


def _edges(neighbors: dict[int, list[int]]) -> Tensor:
    """Each edge once in both directions, without self-loops, (2, E)."""
    pairs = np.array([(a, b) for a, others in neighbors.items() for b in others if a != b], dtype=np.int64)
    both = np.concatenate([pairs.reshape(-1, 2), pairs.reshape(-1, 2)[:, ::-1]])
    return torch.from_numpy(np.unique(both, axis=0).T.copy())


def _read(path: Path) -> Any:
    """The content of a file: an array, a sparse matrix, or a dictionary of lists."""
    try:
        with path.open("rb") as stream:
            content = _Reader(stream).load()
            return content.matrix() if isinstance(content, _Rows) else content
    except (pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a Planetoid file: {error}") from error


class _Rows:
    """A stand-in for scipy's CSR matrix, so that no code of scipy runs while a file is read."""

    def matrix(self) -> Any:
        from scipy.sparse import csr_array

        parts = vars(self)
        return csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=parts["_shape"])


class _Reader(pickle.Unpickler):
    """An unpickler that refuses every name but those that the published files use."""

    NAMES: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("scipy.sparse.csr", "csr_matrix"): _Rows,
        ("collections", "defaultdict"): defaultdict,
        ("__builtin__", "list"): list,
    }

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream, encoding="latin1", fix_imports=False)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.NAMES:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is refused")
        return self.NAMES[module, name]


CORA = Entry(
    name="cora",
    kind="graph",
    shape=(1433,),
    sizes={"nodes": 2708, "features": 1433, "classes": 7},
    counts=(140, 500, 1000),
    source="citations (Sen et al., 2008), the public Planetoid split (Yang et al., 2016), rows of features sum to 1",
    load=load,
    labels=(
        "theory", "reinforcement learning", "genetic algorithms", "neural networks", "probabilistic methods",
        "case based", "rule learning",
    ),
    remote=Remote(
        folder="planetoid",
        mirrors=(
            "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/",
            "https://raw.githubusercontent.com/tkipf/gcn/master/gcn/data/",
        ),
        files=(
            RemoteFile("ind.cora.allx", 257305, "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
            RemoteFile("ind.cora.ally", 47959, "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
            RemoteFile("ind.cora.graph", 59847, "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
            RemoteFile("ind.cora.tx", 148025, "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
            RemoteFile("ind.cora.ty", 28135, "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
            RemoteFile("ind.cora.test.index", 5000, "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"),
        ),
    ),
)  # fmt: skip
