"""Batches select and move all their parts together."""

import pytest
import torch

from deepcanon.core import DataError, Graph, GraphBatch, Labelled, Sequences


def test_every_part_is_selected() -> None:
    batch = Labelled(torch.arange(10.0).view(5, 2), torch.arange(5))
    part = batch.select(torch.tensor([4, 0]))
    assert part.x.tolist() == [[8.0, 9.0], [0.0, 1.0]]
    assert part.y.tolist() == [4, 0]
    rows = Sequences(torch.arange(6).view(3, 2), torch.tensor([2, 1, 2])).select(torch.tensor([1]))
    assert rows.lengths.tolist() == [1]
    assert len(rows) == 1


def test_a_label_for_every_example() -> None:
    with pytest.raises(DataError, match="got 3 examples and 2 labels"):
        Labelled(torch.zeros(3, 1), torch.zeros(2))


def test_a_graph_is_one_batch_and_is_checked() -> None:
    graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=4)
    batch = GraphBatch(
        x=torch.eye(4), y=torch.zeros(4, dtype=torch.long), mask=torch.ones(4, dtype=torch.bool), graph=graph
    )
    assert len(batch) == 1
    assert batch.select(torch.tensor([0])) is batch
    assert graph.degrees().tolist() == [1.0, 2.0, 1.0, 0.0]
    weighted = Graph(graph.edge_index, 4, torch.tensor([0.5, 2.0, 1.0, 1.0]))
    assert weighted.degrees().tolist() == [2.0, 1.5, 1.0, 0.0]
    with pytest.raises(DataError, match="vertices 0 to 2"):
        Graph(torch.tensor([[0], [3]]), nodes=3)
    with pytest.raises(DataError, match="shape"):
        Graph(torch.tensor([0, 3]), nodes=4)
    with pytest.raises(DataError, match="as many weights"):
        Graph(graph.edge_index, 4, torch.ones(3))
