"""Zips of the TU collection are read graph by graph, and recognized by what they hold."""

import hashlib
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch

from deepcanon.core import DataError
from deepcanon.data import load_data
from deepcanon.data.sets import tudataset
from deepcanon.data.sets.tudataset import MUTAG, PROTEINS

TEXTS = {
    "A": "3, 4\n4, 3\n1, 2\n2, 1\n5, 3\n3, 5\n",  # the second graph first
    "graph_indicator": "1\n1\n2\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "0\n2\n1\n0\n0\n",
    "edge_labels": "1\n1\n0\n0\n2\n2\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tudataset").mkdir()
    return tmp_path / "tudataset"


def write(path: Path, texts: dict[str, str]) -> None:
    with ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/README.txt", "about")
        for name, text in texts.items():
            archive.writestr(f"{path.stem}/{path.stem}_{name}.txt", text)


def test_graphs_come_out_of_the_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "MUTAG.zip", TEXTS)
    with pytest.raises(DataError, match="does not hold the published graphs"):
        load_data("mutag")
    tables = tudataset._columns(folder / "MUTAG.zip")
    digest = hashlib.sha256(b"".join(table.tobytes() for table in tables.values())).hexdigest()
    monkeypatch.setattr(tudataset, "SHA256", {"mutag": digest})
    batch = tudataset.read(MUTAG)
    assert batch.graph.parts == (2, 3)
    assert batch.graph.edge_index.tolist() == [[0, 1, 2, 3, 4, 2], [1, 0, 3, 2, 2, 4]]
    assert batch.x.argmax(1).tolist() == [0, 2, 1, 0, 0]
    assert batch.y.tolist() == [1, 0]
    assert batch.graph.edge_features is not None
    assert batch.graph.edge_features.argmax(1).tolist() == [0, 0, 1, 1, 2, 2]
    assert batch.select(torch.tensor([1])).graph.edge_index.tolist() == [[0, 1, 2, 0], [1, 0, 0, 2]]


def test_a_missing_or_wrong_file_is_an_error_that_says_what_to_do(folder: Path) -> None:
    with pytest.raises(DataError, match=rf"put PROTEINS.zip of the TU collection .* into {folder}"):
        load_data("proteins")
    for content in (b"", b"no archive"):
        (folder / "PROTEINS.zip").write_bytes(content)
        with pytest.raises(DataError, match="is not a zip of a TU data set"):
            load_data("proteins")
    write(folder / "PROTEINS.zip", {name: text for name, text in TEXTS.items() if name != "A"})
    with pytest.raises(DataError, match="is not a zip of a TU data set"):
        load_data("proteins")


@pytest.mark.slow
@pytest.mark.skipif(not PROTEINS.remote.here(), reason="the TU zips are not on this machine; set DEEPCANON_DATA")
def test_the_real_sets_have_their_published_sizes() -> None:
    for entry, graphs, nodes, edges in ((PROTEINS, 1113, 39.06, 72.82), (MUTAG, 188, 17.93, 19.79)):
        whole = tudataset.read(entry)
        assert len(whole) == graphs
        assert whole.graph.nodes / graphs == pytest.approx(nodes, abs=0.005)
        assert whole.graph.edge_index.shape[1] / 2 / graphs == pytest.approx(edges, abs=0.005)
        data = load_data(entry.name)
        assert sum(len(data.split(name)) for name in ("train", "valid", "test")) == graphs
        assert data.train.x.shape[1:] == data.shape
