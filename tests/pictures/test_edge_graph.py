"""The picture of pairs has a line for each, in the color of its class, dotted where the prediction is wrong."""

import torch
from matplotlib.collections import LineCollection

from deepcanon.core import Graph
from deepcanon.pictures.edge_graph import MOST_PAIRS, pair_graph


def test_every_pair_is_drawn_once_in_each_panel_and_wrong_ones_are_dotted() -> None:
    ring = torch.stack([torch.arange(6), torch.arange(6).roll(1)])
    graph = Graph(torch.cat([ring, ring.flip(0)], 1), 6)
    true = torch.tensor([0, 0, 0, 1, 1, 1])
    probabilities = torch.eye(2)[torch.tensor([0, 0, 1, 1, 1, 1])]
    figure = pair_graph(graph, ring, true, probabilities, labels=("opponents", "friends"))
    for axes, counts in zip(figure.axes, ([6, 2, 1, 3, 0], [6, 2, 0, 3, 1]), strict=True):
        drawn = [each for each in axes.collections if isinstance(each, LineCollection)]
        assert [len(each.get_paths()) for each in drawn] == counts  # edges, then both classes, right and wrong
    assert "83.3% right of 6" in figure.axes[1].get_title(loc="left")


def test_of_many_pairs_some_are_drawn_and_all_are_counted() -> None:
    graph = Graph(torch.empty(2, 0).long(), 40)
    pairs = torch.combinations(torch.arange(40)).T
    figure = pair_graph(graph, pairs, torch.zeros(780).long(), torch.eye(2)[torch.zeros(780).long()])
    one, two = figure.axes
    drawn = sum(len(each.get_paths()) for each in one.collections if isinstance(each, LineCollection))
    assert drawn <= MOST_PAIRS < 780
    assert one.get_title(loc="left") == f"True classes, {drawn} of the pairs"
    assert "of 780" in two.get_title(loc="left")
