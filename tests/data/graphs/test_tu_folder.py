"""Folders of many graphs give what PyTorch Geometric reads from them, with attributes standardized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepcanon.catalogue import find
from deepcanon.core import Blueprint, DataError, Graphs, LabeledGraphs, UsageError
from deepcanon.data import load_data, load_rows, row_names
from deepcanon.data.suits import check_suits

GRAPHS = 12


def texts(seed: int = 0) -> dict[str, str]:
    """Rings of three to six nodes, listed both ways, with labels and attributes of nodes and edges."""
    random = np.random.default_rng(seed)
    sizes = random.integers(3, 7, GRAPHS)
    starts = np.cumsum(sizes) - sizes
    once = [(start + i, start + (i + 1) % n) for start, n in zip(starts, sizes, strict=True) for i in range(n)]
    edges = [*once, *(edge[::-1] for edge in once)]  # those of a graph do not stand together
    nodes, kinds = int(sizes.sum()), {edge: place % 3 for place, edge in enumerate(once)}
    return {
        "A": "".join(f"{a + 1}, {b + 1}\n" for a, b in edges),
        "graph_indicator": "".join(f"{g + 1}\n" * n for g, n in enumerate(sizes)),
        "graph_labels": "".join(f"{(-1, 1)[g % 2]}\n" for g in range(GRAPHS)),
        "node_labels": "".join(f"{node % 3 + 2}\n" for node in range(nodes)),
        "node_attributes": "".join(f"{random.normal(5, 3):.4f}, {random.normal():.4f}\n" for _ in range(nodes)),
        "edge_labels": "".join(f"{kinds.get(edge, kinds.get(edge[::-1]))}\n" for edge in edges),
    }


def write(folder: Path, content: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in content.items():
        (folder / f"DS_{name}.txt").write_text(text)
    return folder


def entries(graph: Any, features: Any) -> list[tuple[Any, ...]]:
    return sorted((*ends, *row) for ends, row in zip(graph.T.tolist(), features.tolist(), strict=True))


def test_all_graphs_are_those_of_pytorch_geometric(tmp_path: Path) -> None:
    io = pytest.importorskip("torch_geometric.io", reason="needs torch_geometric, of deepcanon[oracles]")
    folder = write(tmp_path / "rings", texts())
    (folder / "README.txt").write_text("about")
    data = load_data(folder)
    expected, slices, _ = io.read_tu_data(str(folder), "DS")
    whole = load_rows(str(folder), data.preprocessing)
    assert isinstance(whole, LabeledGraphs)
    assert whole.graph.parts == tuple(slices["x"].diff().tolist())
    assert whole.y.tolist() == expected.y.tolist()
    assert data.labels == ("-1", "1")
    assert torch.equal(whole.x[:, :3], expected.x[:, 2:])  # labels come first, attributes after them
    starts = slices["x"][:-1].repeat_interleave(slices["edge_index"].diff())
    theirs = entries(expected.edge_index + starts, expected.edge_attr)
    assert entries(whole.graph.edge_index, whole.graph.edge_features) == theirs
    used = torch.cat([data.split(name).x[:, 3:] for name in ("train", "valid", "test")])
    assert len(used) == len(whole.x)
    assert data.train.x[:, 3:].mean(0).numpy() == pytest.approx(0, abs=1e-6)
    assert data.train.x[:, 3:].std(0, unbiased=False).numpy() == pytest.approx(1, abs=1e-6)
    saved = data.preprocessing["graph"]["nodes"][1:]
    mean, std = (torch.tensor([column[part] for column in saved]) for part in ("mean", "std"))
    assert (whole.x[:, 3:] * std + mean).numpy() == pytest.approx(expected.x[:, :2].numpy(), abs=1e-4)


def test_splits_are_stratified_and_read_again_alike(tmp_path: Path) -> None:
    folder = write(tmp_path / "rings", texts())
    data = load_data(folder)
    assert [len(data.split(name)) for name in ("train", "valid", "test")] == [9, 1, 2]
    assert sorted(data.split("test").y.tolist()) == [0, 1]
    assert dict(data.sizes) == {"features": 5, "classes": 2, "edge_features": 3}
    assert load_data(folder, preprocessing=data.preprocessing).fingerprint() == data.fingerprint()
    plain = load_data(f"{folder}:plain")
    assert dict(plain.sizes) == {"features": 5, "classes": 2}
    assert row_names(str(folder), data.preprocessing, {}) == {
        "graph": list(range(1, GRAPHS + 1)), "label": ["-1", "1"] * (GRAPHS // 2)
    }  # fmt: skip


def test_new_graphs_need_no_labels_and_nodes_no_features(tmp_path: Path) -> None:
    bare = {name: text for name, text in texts().items() if name in ("A", "graph_indicator", "graph_labels")}
    data = load_data(write(tmp_path / "bare", bare))
    assert dict(data.sizes) == {"features": 1, "classes": 2}
    assert torch.equal(data.train.x, torch.ones_like(data.train.x))
    del bare["graph_labels"]
    new = write(tmp_path / "new", bare)
    rows = load_rows(str(new), data.preprocessing)
    assert type(rows) is Graphs
    assert row_names(str(new), data.preprocessing, {}) == {"graph": list(range(1, GRAPHS + 1))}
    unlabeled = load_data(new)
    assert type(unlabeled.train) is Graphs
    assert [len(unlabeled.split(name)) for name in ("train", "valid", "test")] == [9, 1, 2]
    assert dict(unlabeled.sizes) == {"features": 1}
    with pytest.raises(UsageError, match=r"graph_classifier learns from labeled graphs; .* gives many graphs without"):
        check_suits(Blueprint(find("graph_classifier")), unlabeled)


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("A", "1, 2\n", "1, 999\n", r"DS_A.txt, line 1: there is no node 999; there are \d+"),
        ("A", "1, 2\n", "0, 2\n", "DS_A.txt, line 1: there is no node 0"),
        ("A", "1, 2\n", "1, 20\n", "DS_A.txt, line 1: an edge joins the nodes 1 and 20 of two graphs"),
        ("A", "1, 2\n", "1, b\n", "DS_A.txt, line 1: two whole numbers were expected, got '1, b'"),
        ("A", "1, 2\n", "1, 2, 3\n", "DS_A.txt, line 2 has 2 values, but the first line has 3"),
        ("graph_indicator", "1\n1\n", "1\n3\n", "line 2: nodes are listed graph by graph from 1 on; after 1 came 3"),
        ("graph_indicator", "1\n1\n", "1.5\n1\n", "line 1: a whole number was expected, got '1.5'"),
        ("graph_labels", "-1\n1\n", "-1\n?\n", "graph 2, attribute 'label': the class is missing; fill it in"),
        ("graph_labels", "-1\n1\n", "-1\n", "DS_graph_labels.txt has 11 lines, but there are 12 graphs"),
        ("node_labels", "2\n", "", r"DS_node_labels.txt has \d+ lines, but there are \d+ nodes"),
        ("edge_labels", "0\n", "", r"DS_edge_labels.txt has \d+ lines, but there are \d+ edges"),
        ("node_attributes", ", ", ", warm", "node 1, attribute 'attribute 2': a number was expected, got 'warm"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, name: str, old: str, new: str, problem: str) -> None:
    content = texts()
    folder = write(tmp_path / "rings", {**content, name: content[name].replace(old, new, 1)})
    with pytest.raises(DataError, match=problem):
        load_data(folder)


def test_empty_files_and_one_class_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"DS_A.txt is empty"):
        load_data(write(tmp_path / "rings", {**texts(), "A": ""}))
    one = {**texts(), "graph_labels": "7\n" * GRAPHS}
    with pytest.raises(DataError, match=r"every graph of .* has the class '7', so there is nothing to learn"):
        load_data(write(tmp_path / "rings", one))
    (tmp_path / "rings" / "DS_graph_labels.txt").write_bytes(b"\xff\n" * GRAPHS)
    with pytest.raises(DataError, match=r"DS_graph_labels.txt cannot be read as text"):
        load_data(tmp_path / "rings")
