"""Edge lists with tables of nodes: the graph is networkx's, the features are scikit-learn's, and mistakes are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from deepcanon.catalogue import find
from deepcanon.core import Blueprint, DataError, GraphBatch, UsageError
from deepcanon.data import load_data, load_rows, row_names
from deepcanon.data.dataset import Dataset
from deepcanon.data.suits import check_suits

NODES = 40


def people(path: Path, seed: int = 0, count: int = NODES, header: str = "name,age,town,club") -> Path:
    """A table of nodes: a number, a category, and a class that every fourth node lacks."""
    random = np.random.default_rng(seed)
    rows = [
        f"p{i},{random.normal(40, 9):.3f},{('Ulm', 'Bonn', 'Köln')[i % 3]},{'' if i % 4 == 3 else 'ab'[i % 2]}"
        for i in range(count)
    ]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def friends(path: Path, drawn: Any, header: str = "source,target") -> Path:
    rows = [",".join([f"p{a}", f"p{b}", *map(str, values.values())]) for a, b, values in drawn.edges(data=True)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.fixture
def graph(tmp_path: Path) -> Dataset[GraphBatch]:
    return load_data(
        friends(tmp_path / "edges.csv", networkx.gnm_random_graph(NODES, 80, seed=1)),
        nodes=str(people(tmp_path / "nodes.csv")),
        target="club",
    )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_adjacency_matrix_is_that_of_networkx(tmp_path: Path, directed: bool, weighted: bool) -> None:
    drawn = networkx.gnm_random_graph(NODES - 5, 70, seed=2, directed=directed)  # the last five have no edge
    drawn.add_edge(3, 3)
    if weighted:
        for place, edge in enumerate(drawn.edges):
            drawn.edges[edge]["weight"] = 0.5 + place
    friends(tmp_path / "edges.csv", drawn, "source,target,weight" if weighted else "source,target")
    drawn.add_nodes_from(range(NODES))
    name = f"{tmp_path / 'edges.csv'}{':directed' if directed else ''}"
    found = load_data(name, nodes=str(people(tmp_path / "nodes.csv")), target="club").train.graph
    expected = networkx.to_numpy_array(drawn, nodelist=range(NODES)).T  # ours has the targets in its rows
    assert np.array_equal(found.operator("adjacency").to_dense().numpy(), expected)
    assert (found.weight is not None) == weighted


def test_features_are_those_of_scikit_learn_over_all_nodes(graph: Dataset[GraphBatch], tmp_path: Path) -> None:
    rows = [line.split(",") for line in (tmp_path / "nodes.csv").read_text(encoding="utf-8").splitlines()[1:]]
    age, town = np.array([[float(row[1])] for row in rows]), np.array([[row[2]] for row in rows])
    expected = np.hstack([StandardScaler().fit_transform(age), OneHotEncoder().fit_transform(town).toarray()])
    assert graph.train.x.numpy() == pytest.approx(expected, abs=1e-6)
    assert dict(graph.sizes) == {"nodes": NODES, "features": 4, "classes": 2}
    assert graph.labels == ("a", "b")


def test_words_that_occur_or_not_stay_zeros_and_ones_and_mostly_zeros_are_kept_sparse(tmp_path: Path) -> None:
    words = np.eye(30, 40) + np.eye(30, 40, 5)
    rows = [",".join([f"p{i}", *(f"{word:g}" for word in row), "ab"[i % 2]]) for i, row in enumerate(words)]
    header = ",".join(["id", *(f"w{i}" for i in range(40)), "kind"])
    (tmp_path / "nodes.csv").write_text("\n".join([header, *rows]) + "\n")
    edges = friends(tmp_path / "edges.csv", networkx.path_graph(30))
    data = load_data(edges, nodes=str(tmp_path / "nodes.csv"), target="kind")
    assert data.train.x.layout == torch.sparse_coo
    assert np.array_equal(data.train.x.to_dense().numpy(), words)
    reading = {"nodes": str(tmp_path / "nodes.csv"), "target": "kind"}
    assert torch.equal(load_rows(str(edges), data.preprocessing, reading=reading).x.to_dense(), data.train.x.to_dense())


def test_nodes_with_a_class_are_split_by_class_and_the_others_are_in_no_split(graph: Dataset[GraphBatch]) -> None:
    assert graph.says.endswith("target 'club'): 21 nodes to train, 3 nodes to validate, 6 nodes to test.")
    masks = torch.stack([graph.split(name).mask for name in ("train", "valid", "test")])
    assert torch.equal(masks.any(0), torch.arange(NODES) % 4 != 3)
    assert masks.sum(0).max() == 1
    assert masks.sum(1).tolist() == [21, 3, 6]
    y = graph.train.y
    assert torch.equal(y < 0, torch.arange(NODES) % 4 == 3)
    for mask in masks:  # a third of the classes are b
        assert abs(int((y[mask] == 1).sum()) - int(mask.sum()) / 3) < 1


def test_a_column_may_say_which_split_a_node_is_in(tmp_path: Path) -> None:
    edges = friends(tmp_path / "edges.csv", networkx.path_graph(6))
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,size,kind,part\np0,1,a,train\np1,2,b,train\np2,3,a,val\np3,4,b,Test\np4,5,,test\np5,6,b,\n")
    data = load_data(edges, nodes=str(nodes), target="kind", split="part")
    assert data.train.x.shape == (6, 1)  # neither the class nor the split is a feature
    found = {name: data.split(name).counted.tolist() for name in ("train", "valid", "test")}
    assert found == {"train": [0, 1], "valid": [2], "test": [3]}
    nodes.write_text(nodes.read_text().replace("p5,6,b,", "p5,6,b,later"))
    with pytest.raises(DataError, match=r"nodes.csv, line 7, column 'part': train, valid, test or nothing"):
        load_data(edges, nodes=str(nodes), target="kind", split="part")
    nodes.write_text(nodes.read_text().replace("later", "").replace("train", "test"))
    with pytest.raises(DataError, match="counts no node with a class to train; write 'train' for some"):
        load_data(edges, nodes=str(nodes), target="kind", split="part")


def test_an_edge_that_is_listed_both_ways_counts_once(tmp_path: Path) -> None:
    nodes, edges = people(tmp_path / "nodes.csv"), tmp_path / "edges.csv"

    def listed(text: str, form: str = "") -> list[list[int]]:
        edges.write_text(text)
        found: list[list[int]] = load_data(f"{edges}{form}", nodes=str(nodes), target="club").train.graph.edge_index.T
        return sorted(torch.as_tensor(found).tolist())

    once = [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert listed("a,b\np0,p1\np1,p2\n") == once
    assert listed("a,b\np0,p1\np1,p0\np1,p2\np1,p2\n") == once
    assert listed("a,b,weight\np0,p1,2\np1,p0,2.0\np1,p2,1\n") == once
    assert listed("a,b,weight\np0,p1,2\np1,p0,3\n", ":directed") == [[0, 1], [1, 0]]
    assert listed("a,b,weight\np0,p1,2\np0,p1,3\n", ":plain") == once[:2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b,weight\np0,p1,2\np1,p0,3\n", r"line 3, column 'weight': the edge from 'p1' to 'p0' is there already with "
         r"another weight; list it once, or say .*edges.csv:directed"),
        ("a,b,weight\np0,p1,2\np0,p1,2\n", "line 3, column 'weight': .* is there already; list it once$"),
        ("a,b,weight\np0,p1,2\np1,p0,2\np1,p0,2\n", "line 4, column 'weight': .* is there already; list it once$"),
        ("a,b,weight\np0,p1,-1\n", "line 2, column 'weight': a positive number was expected, got '-1'"),
        ("a,b,weight\np0,p1,\n", "line 2, column 'weight': a positive number was expected, got '.missing.'"),
        ("a,b,weight\np0,p1,heavy\n", "line 2, column 'weight': a positive number was expected, got 'heavy'"),
        ("a,b\np0,p1\np0,p99\n", r"edges.csv, line 3, column 'b': there is no node 'p99' in .*nodes.csv; add its row"),
        ("a,b\np0,p1\n,p1\n", "line 3, column 'a': an end of the edge is missing; fill it in"),
        ("a,b\np0,p1,p2\n", "line 2 has 3 values, but there are 2 columns"),
        ("a,a\np0,p1\n", "has two columns named 'a'"),
        ("a\np0\n", "has one column; an edge list has two"),
        ("a,b\n", "names its columns but has no rows"),
        ("", "edges.csv is empty"),
    ],
)  # fmt: skip
def test_a_wrong_edge_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "edges.csv").write_text(text)
    with pytest.raises(DataError, match=problem):
        load_data(tmp_path / "edges.csv", nodes=str(people(tmp_path / "nodes.csv")), target="club")


@pytest.mark.parametrize(
    ("text", "target", "problem"),
    [
        ("id,x,y\np0,1,a\np1,2,b\np0,3,a\n", "y", "line 4, column 'id': the node 'p0' is in line 2 already"),
        ("id,x,y\np0,1,a\n,2,b\n", "y", "line 3, column 'id': a node needs a name"),
        ("id,x,y\np0,1,a\np1,2,b\n", "z", "has no column 'z'"),
        ("id,x,y\np0,1,\np1,2,\n", "y", "the column 'y' of .*nodes.csv has no class"),
        ("id,x,y\np0,1,a\np1,2,a\n", "y", "has only the class 'a', so there is nothing to learn"),
        ("id,x,y\np0,1,a\np1,2,b\np2,3,\n", "y", "has 2 different values in 2 nodes, so it names nodes"),
        ("id,x,y\np0,1,a\np1,2,b\np2,3,a\np3,4,b\n", "y", "the column 'y' of .* has 4 examples; at least 5"),
        ("id,x,y\n" + "".join(f"p{i},{i},{0.5 * (i // 2)}\n" for i in range(8)), "y", "holds numbers, and models of"),
        ("id,x,y\np0,1,a\np1,low\n", "y", "line 3 has 2 values"),
    ],
)
def test_a_wrong_node_is_named_with_its_line(tmp_path: Path, text: str, target: str, problem: str) -> None:
    (tmp_path / "edges.csv").write_text("source,target\np0,p1\n")
    (tmp_path / "nodes.csv").write_text(text)
    with pytest.raises(DataError, match=problem):
        load_data(tmp_path / "edges.csv", nodes=str(tmp_path / "nodes.csv"), target=target)


def test_what_is_not_said_is_asked_for(tmp_path: Path) -> None:
    edges, nodes = friends(tmp_path / "edges.csv", networkx.path_graph(6)), people(tmp_path / "nodes.csv")
    with pytest.raises(UsageError, match="say by the target which of age, town, club is the class of a node, or"):
        load_data(edges, nodes=str(nodes))
    with pytest.raises(UsageError, match=r"in a CSV file of their own; got nodes.txt"):
        load_data(edges, nodes="nodes.txt", target="club")
    with pytest.raises(DataError, match=r"there is no file .*nothing.csv"):
        load_data(edges, nodes=str(tmp_path / "nothing.csv"), target="club")
    with pytest.raises(UsageError, match="either directed or undirected; leave one out"):
        load_data(f"{edges}:directed:undirected", nodes=str(nodes), target="club")
    with pytest.raises(UsageError, match="digits gives images, without nodes to choose; leave out the nodes"):
        load_data("digits", nodes=str(nodes))


def test_nodes_are_named_by_their_id_or_by_the_first_column(tmp_path: Path) -> None:
    edges = friends(tmp_path / "edges.csv", networkx.path_graph(NODES))
    first = load_data(edges, nodes=str(people(tmp_path / "nodes.csv")), target="club")
    text = (tmp_path / "nodes.csv").read_text(encoding="utf-8").splitlines()
    moved = [",".join([*line.split(",")[1:], line.split(",")[0]]) for line in ["x,age,town,club", *text[1:]]]
    (tmp_path / "nodes.csv").write_text("\n".join(moved).replace(",x\n", ",node\n", 1), encoding="utf-8")
    last = load_data(edges, nodes=str(tmp_path / "nodes.csv"), target="club")
    assert torch.equal(first.train.x, last.train.x)


def test_a_saved_preprocessing_reads_the_same_graph_and_a_new_one(graph: Dataset[GraphBatch], tmp_path: Path) -> None:
    again = load_data(graph.name, preprocessing=graph.preprocessing, nodes=str(tmp_path / "nodes.csv"), target="club")
    assert again.fingerprint() == graph.fingerprint()
    assert graph.reading == {"nodes": str((tmp_path / "nodes.csv").resolve()), "target": "club"}
    new = friends(tmp_path / "new.csv", networkx.path_graph(12))
    reading = {"nodes": str(people(tmp_path / "others.csv", seed=5, count=12)), "target": "club"}
    rows = load_rows(str(new), graph.preprocessing, labeled=False, reading=reading)
    assert isinstance(rows, GraphBatch)
    assert (rows.graph.nodes, rows.x.shape, bool(rows.mask.any())) == (12, (12, 4), False)
    saved = graph.preprocessing["graph"]["nodes"][0]
    age = float((tmp_path / "others.csv").read_text(encoding="utf-8").splitlines()[1].split(",")[1])
    assert float(rows.x[0, 0]) == pytest.approx((age - saved["mean"]) / saved["std"], abs=1e-5)
    labeled = load_rows(str(new), graph.preprocessing, reading=reading)
    assert isinstance(labeled, GraphBatch)
    assert torch.equal(labeled.mask, torch.arange(12) % 4 != 3)
    names = row_names(str(new), graph.preprocessing, reading)
    assert names["name"] == [f"p{i}" for i in range(12)]
    assert names["club"][:4] == ["a", "b", "a", ""]


def test_nodes_without_columns_are_told_apart_by_who_they_are(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,kind\n" + "".join(f"p{i},{'ab'[i % 2]}\n" for i in range(8)))
    edges = friends(tmp_path / "edges.csv", networkx.path_graph(8))
    data = load_data(edges, nodes=str(nodes), target="kind")
    assert torch.equal(data.train.x.to_dense(), torch.eye(8))
    assert data.sizes["features"] == 8
    reading = {"nodes": str(nodes), "target": "kind"}
    assert load_rows(str(edges), data.preprocessing, reading=reading).x.shape == (8, 8)
    nodes.write_text(nodes.read_text().replace("p7", "q7"))
    friends(tmp_path / "edges.csv", networkx.path_graph(7))
    with pytest.raises(UsageError, match="only nodes with columns can be new"):
        load_rows(str(edges), data.preprocessing, reading=reading)


def test_features_of_edges_are_columns_that_a_form_leaves_out(tmp_path: Path) -> None:
    edges, nodes = tmp_path / "edges.csv", people(tmp_path / "nodes.csv")
    edges.write_text("since,source,target,kind\n2001,p0,p1,friend\n2003,p1,p2,kin\n")
    data = load_data(edges, nodes=str(nodes), target="club")
    assert data.sizes["edge_features"] == 3
    found = data.train.graph.edge_features
    assert found is not None
    assert found.tolist() == [[-1, 1, 0], [1, 0, 1], [-1, 1, 0], [1, 0, 1]]  # of both directions
    with pytest.raises(
        UsageError, match=r"gcn takes no features of edges, which .* has; .*edges.csv:plain leaves them"
    ):
        check_suits(Blueprint(find("gcn")), data)
    plain = load_data(f"{edges}:plain", nodes=str(nodes), target="club")
    assert plain.train.graph.edge_features is None
    check_suits(Blueprint(find("gcn")), plain)


def test_columns_of_nodes_follow_the_rule_of_tables_and_what_is_dropped_is_said(tmp_path: Path) -> None:
    rows = [f"p{i},{i},{('x', 'y', 'z')[i % 3]},{i * i % 7},{'ab'[i % 2]}" for i in range(NODES)]
    (tmp_path / "nodes.csv").write_text("\n".join(["name,number,kind,size,club", *rows]) + "\n")
    edges = friends(tmp_path / "edges.csv", networkx.path_graph(NODES))
    data = load_data(edges, nodes=str(tmp_path / "nodes.csv"), target="club")
    assert data.sizes["features"] == 4
    assert data.remarks == ("Dropped columns of nodes: number (it counts the rows).",)
    chosen = load_data(edges, nodes=str(tmp_path / "nodes.csv"), target="club", drop="kind", column="size=category")
    assert chosen.sizes["features"] == 4  # the different values of the size
    assert chosen.remarks[0].startswith("Dropped columns of nodes: number (it counts the rows), kind (as you said)")
