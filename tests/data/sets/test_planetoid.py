"""Planetoid's files, small ones written here as Python 2 wrote them, and the real ones where they are."""

import hashlib
import io
import pickle
import struct
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from deepcanon.core import DataError
from deepcanon.data import load_data
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.entry import Entry
from deepcanon.data.sets.planetoid import CORA, load

WORDS = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 2]], dtype=np.float32)
CLASSES = np.eye(2, dtype=np.int32)[[0, 1, 1, 0]]
TESTED = np.array([[0, 3, 1], [0, 0, 0]], dtype=np.float32)
# Node 5 is in no file, as some are in Citeseer: the rows of the test stand for the nodes 6 and 4, in this order.
NEIGHBORS = {0: [1, 1, 4], 1: [0], 2: [2], 3: [6], 4: [0], 5: [], 6: [3, 2]}


class Python2(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)
    write: Any
    memoize: Any

    def save_bytes(self, text: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(text)) + text)
        self.memoize(text)

    dispatch[bytes] = save_bytes


def as_python_2_wrote(content: Any) -> bytes:
    """The published files name modules as they were called then."""
    stream = io.BytesIO()
    Python2(stream, protocol=2).dump(content)
    text = stream.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
    return text.replace(b"cscipy.sparse._csr\n", b"cscipy.sparse.csr\n")


def small(folder: Path, **changed: bytes) -> Entry:
    """An entry like Cora's whose files hold the graph above, or what is given in their place."""
    contents = {
        "allx": as_python_2_wrote(csr_matrix(WORDS)),
        "ally": as_python_2_wrote(CLASSES),
        "graph": as_python_2_wrote(defaultdict(list, NEIGHBORS)),
        "tx": as_python_2_wrote(csr_matrix(TESTED)),
        "ty": as_python_2_wrote(np.eye(2, dtype=np.int32)[[1, 0]]),
        "test.index": b"6\n4\n",
        **changed,
    }
    files = []
    (folder / "planetoid").mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / "planetoid" / f"ind.small.{name}").write_bytes(content)
        files.append(RemoteFile(f"ind.small.{name}", len(content), hashlib.sha256(content).hexdigest()))
    sizes = {"nodes": 7, "features": 3, "classes": 2}
    return replace(CORA, name="small", sizes=sizes, counts=(2, 1, 2), remote=Remote("planetoid", (), tuple(files)))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "real" not in request.node.name:
        monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))


def test_features_classes_edges_and_parts(tmp_path: Path) -> None:
    data = load(small(tmp_path))
    x = data.train.x.to_dense()
    third = 1 / 3
    expected = [[0.5, 0, 0.5], [0, 1, 0], [third] * 3, [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0.75, 0.25]]
    torch.testing.assert_close(x, torch.tensor(expected))
    assert data.train.y.tolist() == [0, 1, 1, 0, 0, 0, 1]
    edges = {(0, 1), (0, 4), (3, 6), (2, 6)}
    assert set(map(tuple, data.train.graph.edge_index.T.tolist())) == edges | {(b, a) for a, b in edges}
    assert data.train.graph.edge_index.shape == (2, 8)
    masks = [data.split(part).mask.nonzero().flatten().tolist() for part in ("train", "valid", "test")]
    assert masks == [[0, 1], [2], [4, 6]]
    assert data.fingerprint() == load(small(tmp_path)).fingerprint()


def test_other_features_have_another_fingerprint(tmp_path: Path) -> None:
    first = load(small(tmp_path)).fingerprint()
    other = small(tmp_path, tx=as_python_2_wrote(csr_matrix(TESTED + 1)))
    assert load(other).fingerprint() != first


class Harmful:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harm"),)


def test_a_file_that_would_run_something_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for harm in (pickle.dumps(Harmful(), protocol=2), b"cos\nsystem\n(S'touch harm'\ntR.", b"c__builtin__\neval\n."):
        with pytest.raises(DataError, match=r"ally is not a Planetoid file: it asks for .*, which is refused"):
            load(small(tmp_path, ally=harm))
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("content", [b"", b"no pickle", as_python_2_wrote(CLASSES)[:-20]], ids=["empty", "text", "cut"])
def test_what_is_no_planetoid_file_is_named(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ally is not a Planetoid file"):
        load(small(tmp_path, ally=content))


@pytest.mark.parametrize("name", ["allx", "ally", "graph", "tx", "ty", "test.index"])
def test_a_flipped_bit_in_any_file_is_noticed(name: str, tmp_path: Path) -> None:
    entry, file = small(tmp_path), tmp_path / "planetoid" / f"ind.small.{name}"
    content = file.read_bytes()
    for place in range(0, len(content), 1 + len(content) // 20):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(DataError, match=rf"ind\.small\.{name} is damaged: its SHA-256 is not "):
            load(entry)
    file.write_bytes(content)
    load(entry)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="small must have 7 nodes of 3 features; its files have 6 of 2"):
        load(small(tmp_path, allx=as_python_2_wrote(csr_matrix(WORDS[:, :2]))))
    with pytest.raises(DataError, match="7 nodes of 3 features"):
        load(small(tmp_path, **{"test.index": b"9\n4\n"}))


def test_the_files_are_those_published() -> None:
    assert [file.name.removeprefix("ind.cora.") for file in CORA.remote.files] == [
        "allx", "ally", "graph", "tx", "ty", "test.index",
    ]  # fmt: skip
    assert len(CORA.remote.mirrors) >= 2
    assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in CORA.remote.mirrors)


@pytest.mark.skipif(not CORA.remote.here(), reason="the Planetoid files are not on this machine; set DEEPCANON_DATA")
def test_the_real_cora() -> None:
    data = load_data("cora")
    assert data.train.graph.edge_index.shape == (2, 10556)
    assert tuple(data.train.x.shape) == (2708, 1433)
    # The classes by the numbers of their papers in the data as they were first published.
    counts = dict(zip(data.labels, data.train.y.bincount().tolist(), strict=True))
    assert counts == {
        "theory": 351, "reinforcement learning": 217, "genetic algorithms": 418, "neural networks": 818,
        "probabilistic methods": 426, "case based": 298, "rule learning": 180,
    }  # fmt: skip
    masks = torch.stack([data.split(part).mask for part in ("train", "valid", "test")])
    assert masks.sum(1).tolist() == [140, 500, 1000]
    assert int(masks.sum(0).max()) == 1
    assert data.train.y[data.train.mask].bincount().tolist() == [20] * 7
    assert data.split("test").mask.nonzero().flatten().tolist() == list(range(1708, 2708))
    torch.testing.assert_close(data.train.x.sum(1).to_dense(), torch.ones(2708))
    assert data.train.graph.operator("gcn").T is data.train.graph.operator("gcn")
