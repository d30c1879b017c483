"""Graphs of one's own, the whole way as a user goes it: train, compare, evaluate, predict, and read the result."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

import deepcanon as dc
from deepcanon.data.graphs.tu_folder import is_tu_folder

Call = Callable[..., Any]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def communities(folder: Path, seed: int, nodes: int = 60) -> tuple[Path, Path, list[str]]:
    """Two communities whose members differ in a number; every third does not say where it belongs."""
    random = np.random.default_rng(seed)
    drawn = networkx.planted_partition_graph(2, nodes // 2, 0.3, 0.02, seed=seed)
    true = ["left" if node < nodes // 2 else "right" for node in range(nodes)]
    edges, table = folder / f"edges{seed}.csv", folder / f"nodes{seed}.csv"
    edges.write_text("source,target\n" + "".join(f"v{a},v{b}\n" for a, b in drawn.edges))
    rows = [
        f"v{node},{random.normal(10 * (side == 'left'), 8):.3f},{'xy'[node % 2]},{side if node % 3 else ''}"
        for node, side in enumerate(true)
    ]
    table.write_text("paper,length,kind,topic\n" + "\n".join(rows) + "\n")
    return edges, table, true


@pytest.mark.slow
def test_a_graph_goes_the_whole_way(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges, nodes, true = communities(tmp_path, seed=0)
    run, out = tmp_path / "run", tmp_path / "topics.csv"
    monkeypatch.chdir(tmp_path)
    trained = call(
        "train", "gcn", "--data", edges.name, "--nodes", nodes.name, "--target", "topic", "--out", run, "--json"
    )
    assert trained.code == 0, trained.stderr
    monkeypatch.chdir("/")  # the run finds both files from anywhere
    given = ("--data", edges, "--nodes", nodes, "--target", "topic")
    assert trained.json["test"]["accuracy"] > 0.85
    assert call("evaluate", run, "--json").json["test"] == trained.json["test"]
    assert call("predict", run, "--out", out).code == 0
    rows = read(out)
    assert list(rows[0]) == ["paper", "topic", "prediction", "probability_left", "probability_right"]
    assert [row["paper"] for row in rows] == [f"v{node}" for node in range(60)]
    unknown = [(row["prediction"], side) for row, side in zip(rows, true, strict=True) if not row["topic"]]
    assert len(unknown) == 20
    assert sum(found == side for found, side in unknown) >= 17
    by_python = dc.Run(run).predict()
    assert by_python["prediction"] == [row["prediction"] for row in rows]

    new_edges, new_nodes, new_true = communities(tmp_path, seed=1, nodes=30)
    new = call("predict", run, "--data", new_edges, "--nodes", new_nodes, "--out", tmp_path / "new.csv")
    assert new.code == 0, new.stderr
    found = read(tmp_path / "new.csv")
    assert sum(row["prediction"] == side for row, side in zip(found, new_true, strict=True)) >= 25
    scores = call("evaluate", run, "--data", new_edges, "--nodes", new_nodes, "--json").json
    assert scores["test"]["accuracy"] > 0.8
    assert call("insight", "curvature", run, "--out", tmp_path / "insight.png").code == 0
    assert call("microscope", "gcn", *given, "--out", tmp_path / "page.html").code == 0
    compared = call("compare", "gcn", "spectral_network", *given, "--out", tmp_path / "compared", "--budget", "1")
    assert compared.code == 0, compared.stderr
    nodes.unlink()
    gone = call("predict", run, "--out", tmp_path / "gone.csv")
    assert (gone.code, (tmp_path / "gone.csv").exists()) == (2, False)
    assert f"there is no file {nodes}" in gone.stderr


@pytest.mark.slow
def test_many_graphs_go_the_whole_way(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "rings"
    folder.mkdir()
    edges, owners, labels, start = "", "", "", 1
    for graph in range(40):  # rings and stars
        size = 4 + graph % 5
        around = [(start + i, start + (i + 1) % size) for i in range(size)]
        joined = around if graph % 2 else [(start, start + i) for i in range(1, size)]
        edges += "".join(f"{a}, {b}\n{b}, {a}\n" for a, b in joined)
        owners, labels, start = owners + f"{graph + 1}\n" * size, labels + f"{graph % 2}\n", start + size
    for name, text in (("A", edges), ("graph_indicator", owners), ("graph_labels", labels)):
        (folder / f"R_{name}.txt").write_text(text)
    assert is_tu_folder(folder)
    run, out = tmp_path / "run", tmp_path / "classes.csv"
    trained = call("train", "graph_classifier", "--data", folder, "--out", run, "--epochs", 10, "--json")
    assert trained.code == 0, trained.stderr
    assert trained.json["test"]["accuracy"] == 1
    (folder / "R_graph_labels.txt").unlink()
    assert call("predict", run, "--data", folder, "--out", out).code == 0
    rows = read(out)
    assert [row["graph"] for row in rows] == [str(graph + 1) for graph in range(40)]
    assert [row["prediction"] for row in rows] == [str(graph % 2) for graph in range(40)]
    refused = call("evaluate", run, "--data", folder)
    assert refused.code == 2


@pytest.mark.slow
def test_links_go_the_whole_way(call: Call, tmp_path: Path) -> None:
    edges, _, _ = communities(tmp_path, seed=2)
    run, out = tmp_path / "run", tmp_path / "links.csv"
    trained = call("train", "link_predictor", "--data", f"{edges}:links", "--out", run, "--json")
    assert trained.code == 0, trained.stderr
    assert trained.json["test"]["roc_auc"] > 0.7
    (tmp_path / "pairs.csv").write_text("one,other\n" + "".join(f"v{a},v{a + 30}\nv{a},v{a + 1}\n" for a in range(20)))
    assert call("predict", run, "--data", tmp_path / "pairs.csv", "--out", out).code == 0
    rows = read(out)
    assert (rows[0]["one"], rows[0]["other"]) == ("v0", "v30")
    across = np.mean([float(row["probability_link"]) for row in rows[::2]])
    inside = np.mean([float(row["probability_link"]) for row in rows[1::2]])
    assert inside > across + 0.2


def test_what_cannot_be_said_ends_in_a_sentence_and_writes_nothing(call: Call, tmp_path: Path) -> None:
    edges, nodes, _ = communities(tmp_path, seed=3, nodes=12)
    edges.write_text(edges.read_text() + "v0,v99\n")
    before = {path.name for path in tmp_path.iterdir()}
    refused = call("train", "gcn", "--data", edges, "--nodes", nodes, "--target", "topic", "--out", tmp_path / "run")
    assert refused.code == 2
    line = len(edges.read_text().splitlines())
    assert f"{edges}, line {line}, column 'target': there is no node 'v99' in {nodes}" in refused.stderr
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_table_of_nodes_belongs_to_an_edge_list_only(call: Call, tmp_path: Path, runs: Path) -> None:
    refused = call("predict", runs / "mlp", "--nodes", "nodes.csv", "--out", tmp_path / "p.csv")
    assert refused.code == 2
    assert "has not learned from an edge list with a table of nodes; leave out nodes.csv" in refused.stderr
