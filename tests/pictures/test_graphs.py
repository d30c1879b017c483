"""Graphs by class: wrong predictions are ringed, training nodes are square, small graphs lie by their edges."""

from typing import Any

import networkx
import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import Graph
from deepcanon.pictures.graphs import MOST_LAID_OUT, UNKNOWN, between_corners, class_graph, edge_lines, layout


def drawn(nodes: int, classes: int, wrong: Tensor) -> tuple[Figure, Tensor]:
    """A picture of a ring in which these nodes are predicted wrongly, and its first four are training nodes."""
    ring = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
    true = torch.arange(nodes) % classes
    predicted = torch.where(wrong, (true + 1) % classes, true)
    probabilities = 0.1 / classes + 0.9 * torch.nn.functional.one_hot(predicted, classes)
    training = torch.arange(nodes) < 4
    figure = class_graph(
        Graph(ring, nodes), true, probabilities, training=training, counted=~training, split="test", title="a ring"
    )
    return figure, predicted


def count(points: Any) -> int:
    """How many points a collection draws."""
    return len(points.get_offsets())


def test_wrong_predictions_are_ringed_in_both_panels() -> None:
    wrong = torch.arange(8) % 5 == 4  # of the nodes that count, one
    figure, _ = drawn(8, 3, wrong)
    left, right = figure.axes
    for axes in (left, right):
        *dots, rings = axes.collections[1:]
        assert count(rings) == 1
        assert sum(map(count, dots)) == 8
        assert sum(map(count, dots[1::2])) == 4
    assert right.get_title(loc="left") == "Predicted classes: 75.0% right of 4 in test"


def test_a_node_is_never_ringed_outside_the_part_that_is_judged() -> None:
    figure, _ = drawn(8, 3, torch.arange(8) < 4)
    assert count(figure.axes[0].collections[-1]) == 0
    assert "100.0% right" in figure.axes[1].get_title(loc="left")


def test_a_class_that_is_not_known_is_blank_among_the_true_ones_only() -> None:
    ring = Graph(torch.stack([torch.arange(6), torch.arange(6).roll(1)]), 6)
    true, training = torch.tensor([0, 1, -1, -1, 0, 1]), torch.arange(6) < 2
    shares = torch.nn.functional.one_hot(torch.tensor([0, 1, 0, 1, 0, 1]), 2).double()
    figure = class_graph(ring, true, shares, training=training, counted=torch.arange(6) > 3)
    left, right = (axes.collections[1:-1] for axes in figure.axes)  # between the edges and the rings
    assert count(left[0]) == 2
    face: Any = left[0].get_facecolor()
    assert face[0].tolist() == [1, 1, 1, 1]
    assert sum(map(count, left)) == sum(map(count, right)) == 6
    assert len(left) == len(right) + 1
    assert "100.0% right of 2" in figure.axes[1].get_title(loc="left")
    assert UNKNOWN in [text.get_text() for text in figure.legends[0].get_texts()]


def test_every_edge_is_one_line_whichever_way_it_leads() -> None:
    graph = Graph(torch.tensor([[2, 0, 1, 2], [0, 1, 0, 1]]), 3)
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = {tuple(map(tuple, line)) for line in edge_lines(graph, points).tolist()}
    assert found == {((0, 0), (1, 0)), ((0, 0), (0, 1)), ((1, 0), (0, 1))}


def test_a_large_graph_stands_between_the_corners_of_its_classes() -> None:
    nodes = MOST_LAID_OUT + 1
    for classes in (2, 3, 4, 7):
        figure, predicted = drawn(nodes, classes, torch.zeros(nodes, dtype=torch.bool))
        names = [text.get_text() for text in figure.axes[0].texts]
        assert names == [str(c) for c in range(classes)]
        for text in figure.axes[0].texts:  # beyond the limits matplotlib would leave it out
            x, y = text.get_position()
            assert figure.axes[0].get_xlim()[0] <= x <= figure.axes[0].get_xlim()[1]
            assert figure.axes[0].get_ylim()[0] <= y <= figure.axes[0].get_ylim()[1]
        points = between_corners(torch.nn.functional.one_hot(predicted, classes).double())
        assert len(points.round(decimals=6).unique(dim=0)) == (nodes if classes == 2 else classes)
    certain, unsure = between_corners(torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]))
    torch.testing.assert_close(certain, torch.tensor([0.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(unsure, torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-7)


def test_layouts_are_the_same_again_and_wider_than_high() -> None:
    path = torch.stack([torch.arange(7), torch.arange(1, 8)])
    for graph in (Graph(path, 8), Graph(path[:, ::2], 9), Graph(path[:, :0], 1)):
        points = layout(graph)
        assert torch.equal(points, layout(graph))
        assert points.shape == (graph.nodes, 2)
        assert points.isfinite().all()
        width, height = points.amax(0) - points.amin(0)
        assert width >= height


def test_a_layout_has_no_more_stress_than_that_of_networkx() -> None:
    for known in (networkx.balanced_tree(2, 5), networkx.cycle_graph(20), networkx.circular_ladder_graph(9)):
        steps = torch.from_numpy(networkx.floyd_warshall_numpy(known))
        theirs = torch.tensor([list(place) for place in networkx.kamada_kawai_layout(known).values()])
        ours = layout(Graph(torch.tensor(list(known.edges)).T, len(known)))
        assert _stress(steps, ours) <= 1.01 * _stress(steps, theirs)


def _stress(steps: torch.Tensor, points: torch.Tensor) -> float:
    """How far distances are from numbers of steps, on the scale that suits the points best."""
    apart, weight = torch.cdist(points, points).double(), steps.clamp_min(1) ** -2
    scale = (weight * steps * apart).sum() / (weight * apart.square()).sum()
    return float((weight * (scale * apart - steps).square()).sum())
