"""Links of a graph: what is to be predicted is never seen, and pairs without an edge have none."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pytest
import torch

from deepcanon.core import DataError, LabeledPairs, UsageError
from deepcanon.data import load_data, load_rows, row_names
from deepcanon.data.graphs.graph_links import strangers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    drawn = networkx.gnm_random_graph(30, 100, seed=0)
    rows = "".join(f"n{a},n{b}\nn{b},n{a}\n" if a % 2 else f"n{a},n{b}\n" for a, b in drawn.edges)
    (tmp_path / "edges.csv").write_text(f"source,target\n{rows}n1,n1\n")
    return tmp_path / "edges.csv"


def pairs_of(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in pairs.T.tolist()}


def test_hidden_links_are_in_one_split_only_and_not_in_the_graph(path: Path) -> None:
    data = load_data(f"{path}:links")
    parts = [data.split(name) for name in ("train", "valid", "test")]
    assert [part.pairs.shape[1] for part in parts] == [140, 20, 40]
    assert data.labels == ("no link", "link")
    assert data.says.endswith("140 pairs to train, 20 pairs to validate, 40 pairs to test.")
    links = [pairs_of(part.pairs[:, part.y == 1]) for part in parts]
    apart = [pairs_of(part.pairs[:, part.y == 0]) for part in parts]
    everything = set().union(*links, *apart)
    assert len(everything) == 200  # each pair once
    saved = load_data(f"{path}:links", preprocessing=data.preprocessing)
    assert saved.fingerprint() == data.fingerprint()
    index = {name: place for place, name in enumerate(names_in(path))}
    written = [line.split(",") for line in path.read_text().splitlines()[1:]]
    edges = pairs_of(torch.tensor([[index[a], index[b]] for a, b in written if a != b]).T)
    assert set().union(*links) == edges
    assert not set().union(*apart) & edges
    for part in parts:
        assert pairs_of(part.graph.edge_index) == links[0]  # without self-loops, too


def names_in(path: Path) -> list[str]:
    """The nodes in the order in which they occur, at the first end and then at the second."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return list(dict.fromkeys([row[0] for row in rows] + [row[1] for row in rows]))


def test_pairs_of_another_file_are_asked_of_the_graph_of_the_training(path: Path, tmp_path: Path) -> None:
    data = load_data(f"{path}:links")
    saved = {"source": str(path), **data.preprocessing}
    (tmp_path / "pairs.csv").write_text("a,b\nn3,n4\nn0,n29\nn4,n3\n")
    rows = load_rows(str(tmp_path / "pairs.csv"), saved, labeled=False)
    assert isinstance(rows, LabeledPairs)
    names = names_in(path)
    assert [[names[a], names[b]] for a, b in rows.pairs.T.tolist()] == [["n3", "n4"], ["n0", "n29"], ["n4", "n3"]]
    assert torch.equal(rows.graph.edge_index, data.train.graph.edge_index)
    found = row_names(str(tmp_path / "pairs.csv"), saved, {})
    assert found == {"a": ["n3", "n0", "n4"], "b": ["n4", "n29", "n3"]}
    with pytest.raises(UsageError, match="pairs without an answer"):
        load_rows(str(tmp_path / "pairs.csv"), saved)
    (tmp_path / "pairs.csv").write_text("a,b\nn3,n4\nn0,n77\n")
    with pytest.raises(DataError, match=r"pairs.csv, line 3, column 'b': there is no node 'n77' in .*edges.csv"):
        load_rows(str(tmp_path / "pairs.csv"), saved, labeled=False)


def test_nodes_may_have_columns_and_weights_stay(path: Path, tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,size\n" + "".join(f"n{i},{i}\n" for i in range(31)))
    data = load_data(f"{path}:links", nodes=str(tmp_path / "nodes.csv"))
    assert dict(data.sizes) == {"nodes": 31, "features": 1, "classes": 2}
    assert data.reading == {"nodes": str(tmp_path / "nodes.csv")}
    drawn = networkx.gnm_random_graph(20, 40, seed=0)
    networkx.set_edge_attributes(drawn, 2.5, "weight")
    networkx.write_graphml(drawn, tmp_path / "graph.graphml")
    weighted = load_data(f"{tmp_path / 'graph.graphml'}:links")
    assert weighted.train.graph.weights().unique().tolist() == [2.5]
    assert weighted.train.graph.edge_index.shape == (2, 56)
    assert load_data(f"{tmp_path / 'graph.graphml'}:links:plain").train.graph.weight is None


def test_a_graph_without_enough_pairs_apart_is_refused(tmp_path: Path) -> None:
    dense = networkx.complete_graph(8)
    with pytest.raises(DataError, match="28 pairs of 8 nodes are joined by an edge, and fewer are not"):
        strangers(np.random.RandomState(0), np.array(dense.edges).T, 8)
    half = networkx.gnm_random_graph(8, 14, seed=0)
    apart = strangers(np.random.RandomState(0), np.array([sorted(edge) for edge in half.edges]).T, 8)
    assert pairs_of(torch.from_numpy(apart)) == {tuple(sorted(edge)) for edge in networkx.complement(half).edges}
    (tmp_path / "edges.csv").write_text("a,b\nx,y\ny,z\n")
    with pytest.raises(DataError, match=r"the edge list of .* has 2 examples; at least 5"):
        load_data(f"{tmp_path / 'edges.csv'}:links")
