"""The grid of graphs shows every class and then the worst mistakes, a panel each; a run on graphs leaves it."""

from pathlib import Path

import pytest
import torch
from matplotlib.colors import to_hex

from deepcanon.core import Graph, Graphs
from deepcanon.data import Dataset
from deepcanon.models.graphs.graph_classifier import GraphClassifier
from deepcanon.pictures.graph_grid import LARGEST, SHOWN, graph_captions, graph_grid
from deepcanon.pictures.run_pictures import draw_run
from deepcanon.pictures.style import PALETTE


def test_classes_come_in_turn_and_the_worst_mistakes_last() -> None:
    true = torch.arange(60) % 3
    probabilities = 0.1 + 0.7 * torch.nn.functional.one_hot(true, 3)
    probabilities[10] = torch.tensor([0.98, 0.01, 0.01])  # of class 1
    probabilities[20] = torch.tensor([0.6, 0.1, 0.3])  # of class 2
    shown, captions = graph_captions(probabilities, true, ("a", "b", "c"))
    assert len(shown) == len(captions) == SHOWN
    assert [caption[0] for caption in captions[:6]] == ["a", "b", "c"] * 2
    assert shown[-2:].tolist() == [10, 20]
    assert captions[-2:] == ["b, predicted a (98%)", "c, predicted a (60%)"]
    assert len(set(shown.tolist())) == SHOWN


def test_every_graph_has_a_panel_with_its_nodes_in_the_colors_of_their_features() -> None:
    pair = Graph(torch.tensor([[0, 1], [1, 0]]), 2)
    large, none = (Graph(torch.empty(2, 0).long(), nodes) for nodes in (LARGEST + 1, 0))
    union = Graph.union([pair, large, Graph.union([pair, pair]), none])
    union = Graph(union.edge_index, union.nodes, parts=(2, LARGEST + 1, 4, 0))
    x = torch.zeros(union.nodes, 2)
    x[0, 0] = x[1, 1] = 1
    figure = graph_grid(Graphs(x, union), ["a (90%)", "b (80%)", "a, predicted b (70%)", "none"], "graphs")
    one, two, three, four = figure.axes
    lines, dots = one.collections
    assert len(lines.get_segments()) == 1  # type: ignore[attr-defined]
    assert [to_hex(color) for color in dots.get_facecolors()] == [color.lower() for color in PALETTE[:2]]  # type: ignore[attr-defined]
    assert [text.get_text() for text in two.texts] == [f"{LARGEST + 1} nodes"]
    assert [text.get_text() for text in four.texts] == ["0 nodes"]
    assert three.title.get_color() == PALETTE[1]
    assert one.title.get_color() != PALETTE[1]


@pytest.mark.slow
def test_a_run_on_graphs_leaves_the_grid_and_the_confusion(tmp_path: Path) -> None:
    model, batch = GraphClassifier.example()
    data = Dataset("graphs", "graphs", train=batch, shape=(3,), labels=("ring", "star"))
    drawn = draw_run(model, data, [], tmp_path, 0)
    assert {path.name for path in drawn} == {"confusion.png", "graphs.png"}
    two = GraphClassifier(features=2, classes=2, hidden=(4,))  # of two features, no points in the plane
    planar = type(batch)(batch.x[:, :2].contiguous(), batch.y, batch.graph)
    assert len(draw_run(two, Dataset("graphs", "graphs", train=planar, shape=(2,)), [], tmp_path, 0)) == 2
