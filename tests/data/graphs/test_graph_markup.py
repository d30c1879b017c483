"""GraphML and GML files give the graph that networkx has written, and mistakes are named with their line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch

from deepcanon.core import DataError, GraphBatch
from deepcanon.data import load_data, load_rows, row_names

WRITERS: dict[str, Callable[[Any, Path], None]] = {
    "graph.graphml": networkx.write_graphml,
    "graph.gml": networkx.write_gml,
}
HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">\n'


def drawn(directed: bool = False) -> Any:
    graph = networkx.gnm_random_graph(20, 40, seed=3, directed=directed)
    for node in graph:
        graph.nodes[node].update(age=20.0 + 7 * node % 11, town="Ulm" if node % 3 else "Bonn")
        if node % 4 != 3:
            graph.nodes[node]["club"] = "ab"[node % 2]
    for place, edge in enumerate(graph.edges):
        graph.edges[edge]["weight"] = 1 + place / 2
    return networkx.relabel_nodes(graph, {node: f"m{node}" for node in graph})


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("directed", [False, True])
def test_what_networkx_has_written_comes_back(tmp_path: Path, name: str, directed: bool) -> None:
    graph = drawn(directed)
    WRITERS[name](graph, tmp_path / name)
    data = load_data(tmp_path / name, target="club")
    dense = data.train.graph.operator("adjacency").to_dense().numpy()
    assert np.array_equal(dense, networkx.to_numpy_array(graph).T)
    assert dict(data.sizes) == {"nodes": 20, "features": 3, "classes": 2}
    assert data.train.y.tolist() == [-1 if node % 4 == 3 else node % 2 for node in range(20)]
    both = load_data(f"{tmp_path / name}:undirected:plain", target="club").train.graph
    assert np.array_equal(
        both.operator("adjacency").to_dense().numpy(), networkx.to_numpy_array(graph.to_undirected(), weight=None)
    )
    names = row_names(str(tmp_path / name), data.preprocessing, {"target": "club"})
    assert names["node"] == list(graph)
    assert names["club"][:4] == ["a", "b", "a", ""]


def test_another_file_is_read_by_the_same_preprocessing(tmp_path: Path) -> None:
    networkx.write_graphml(drawn(), tmp_path / "graph.graphml")
    data = load_data(tmp_path / "graph.graphml", target="club")
    other = drawn().subgraph([f"m{node}" for node in range(8)])
    networkx.write_gml(other, tmp_path / "other.gml")
    rows = load_rows(str(tmp_path / "other.gml"), data.preprocessing)
    assert isinstance(rows, GraphBatch)
    places = [int(node[1:]) for node in other]
    assert torch.equal(rows.x, data.train.x[places])
    assert torch.equal(rows.y, data.train.y[places])


def test_defaults_of_attributes_hold_and_drawings_are_left_out(tmp_path: Path) -> None:
    nodes = "".join(f'<node id="n{i}"><data key="y">{"ab"[i % 2]}</data></node>' for i in range(6))
    (tmp_path / "graph.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="y" for="node" attr.name="kind" attr.type="string"/>'
        '<key id="c" for="node" attr.name="color" attr.type="string"><default>red</default></key>'
        f'<graph edgedefault="undirected">{nodes[:-7]}<data key="c">blue</data></node>'
        '<edge id="e" source="n0" target="n1"/></graph></graphml>'
    )
    data = load_data(tmp_path / "graph.graphml", target="kind")
    assert data.train.x.tolist() == [[0, 1]] * 5 + [[1, 0]]
    assert "edge_features" not in data.sizes  # the id of an edge is none
    rows = [f'node [ id {i} label "n{i}" kind "{"ab"[i % 2]}" graphics [ x 1.0 ] size {i} ]' for i in range(6)]
    (tmp_path / "graph.gml").write_text("graph [\n" + "\n".join(rows) + "\nedge [ source 0 target 1 ]\n]\n")
    assert load_data(tmp_path / "graph.gml", target="kind").sizes["features"] == 1


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("graph.graphml", "", "graph.graphml is empty"),
        ("graph.graphml", "source,target\n", "is not a graph in GraphML: syntax error: line 1"),
        ("graph.graphml", HEAD + '<node id="a"/>\n<edge source="a"\ntarget="b"/></graph></graphml>',
         "line 3, target of an edge: there is no node 'b'; add it, or take the edge out"),
        ("graph.graphml", HEAD + '<node id="a"/>\n<node id="a"/></graph></graphml>', "line 3: the node 'a' is there"),
        ("graph.graphml", HEAD + "<node/></graph></graphml>", "line 2: a node needs an id"),
        ("graph.graphml", HEAD + "</graph></graphml>", "has no nodes"),
        ("graph.graphml", '<!DOCTYPE x [\n<!ENTITY a "aa">]>\n' + HEAD + "</graph></graphml>",
         r"line 2: entities \(a\) are not read"),
        ("graph.graphml", HEAD + '<node id="a"><data key="k">1</data></node></graph></graphml>', "no key k"),
        ("graph.gml", "", "graph.gml is empty"),
        ("graph.gml", "graph [ node [ id 0 ", "is not a graph in GML: "),
        ("graph.gml", "graph [ node [ id 0 ] edge [ source 0 target 7 ] ]", "undefined target 7"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_an_error_that_says_where(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=problem):
        load_data(tmp_path / name, target="kind")


def test_files_that_are_not_utf8_or_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.gml").write_bytes(b'graph [\n node [ id 0 label "\xff" ] ]')
    with pytest.raises(DataError, match="is not UTF-8: line 2 has the byte 0xff"):
        load_data(tmp_path / "graph.gml", target="kind")
    with pytest.raises(DataError, match=r"there is no file .*other.gml"):
        load_data(tmp_path / "other.gml", target="kind")


def test_a_wrong_attribute_is_named_with_its_node_or_edge(tmp_path: Path) -> None:
    graph = drawn()
    graph.edges["m0", next(iter(graph["m0"]))]["weight"] = -1.0
    networkx.write_graphml(graph, tmp_path / "graph.graphml")
    with pytest.raises(DataError, match=r"edge 'm0' to 'm\d+', attribute 'weight': a positive number was expected"):
        load_data(tmp_path / "graph.graphml", target="club")
    parallel = networkx.MultiGraph(drawn())
    parallel.add_edge("m1", "m0", weight=99.0)
    parallel.add_edge("m1", "m0", weight=98.0)
    networkx.write_graphml(parallel, tmp_path / "graph.graphml")
    with pytest.raises(DataError, match=r"attribute 'weight': the edge from 'm.' to 'm.' is there already"):
        load_data(tmp_path / "graph.graphml", target="club")
