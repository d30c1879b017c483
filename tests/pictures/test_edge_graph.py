"""The picture of pairs has a line for each, in the color of its class, dotted where the prediction is wrong."""

import torch
from matplotlib.collections import LineCollection

from deepcanon.core import Graph
from deepcanon.pictures.edge_graph import pair_graph


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
