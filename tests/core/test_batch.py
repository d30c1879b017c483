"""Batches select and move all their parts together."""

from dataclasses import replace

import pytest
import torch

from deepcanon import catalogue
from deepcanon.core import (
    DataError,
    Graph,
    GraphBatch,
    Labeled,
    LabeledSequences,
    SemiBatch,
    Sequences,
    TwoDomains,
)


def test_every_part_is_selected() -> None:
    batch = Labeled(torch.arange(10.0).view(5, 2), torch.arange(5))
    part = batch.select(torch.tensor([4, 0]))
    assert part.x.tolist() == [[8.0, 9.0], [0.0, 1.0]]
    assert part.y.tolist() == [4, 0]
    rows = Sequences(torch.arange(6).view(3, 2), torch.tensor([2, 1, 2])).select(torch.tensor([1]))
    assert rows.lengths.tolist() == [1]
    assert len(rows) == 1


def test_a_selection_of_any_type_says_where_its_examples_stand_in_the_data_set() -> None:
    """Also a selection of a selection, and one whose values were replaced; a part is a data set of its own."""
    placeless = set()
    for entry in catalogue.entries():
        _, batch = catalogue.find(entry.name).example()
        assert batch.positions is None
        order = torch.arange(len(batch)).flip(0)
        some = batch.select(order)
        if some.positions is None:
            placeless.add(type(batch))
            continue
        again = replace(some.select(order[:1]), x=some.select(order[:1]).x.clone()).to("cpu")  # the last of the last
        assert torch.equal(some.positions, order)
        assert again.positions is not None
        assert again.positions.tolist() == [0]
        assert some.part(order[:1]).positions is None
    assert placeless == {GraphBatch, TwoDomains}


def test_a_label_for_every_example() -> None:
    with pytest.raises(DataError, match="got 3 examples and 2 labels"):
        Labeled(torch.zeros(3, 1), torch.zeros(2))


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
    with pytest.raises(DataError, match="nodes 0 to 2"):
        Graph(torch.tensor([[0], [3]]), nodes=3)
    with pytest.raises(DataError, match="shape"):
        Graph(torch.tensor([0, 3]), nodes=4)
    with pytest.raises(DataError, match="as many weights"):
        Graph(graph.edge_index, 4, torch.ones(3))


def test_labeled_examples_are_repeated_for_many_unlabeled_ones() -> None:
    few = SemiBatch(torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 1, 2]), torch.arange(10.0).view(10, 1))
    assert len(few) == 10
    part = few.select(torch.tensor([9, 1, 5]))
    assert part.x.flatten().tolist() == [0.0, 1.0, 2.0]
    assert part.y.tolist() == [0, 1, 2]
    assert part.unlabeled.flatten().tolist() == [9.0, 1.0, 5.0]
    again = part.select(torch.tensor([2, 0]))
    assert again.y.tolist() == [2, 0]
    assert again.unlabeled.flatten().tolist() == [5.0, 9.0]
    assert len(few.select(torch.tensor([], dtype=torch.long))) == 0
    assert SemiBatch.held_out() is Labeled
    assert Labeled.held_out() is Labeled


def test_unlabeled_examples_have_the_shape_of_the_labeled_ones_and_are_no_fewer() -> None:
    x, y = torch.zeros(3, 2), torch.zeros(3)
    with pytest.raises(DataError, match=r"must have the shape of the labeled ones, \(2,\); got \(4,\)"):
        SemiBatch(x, y, torch.zeros(9, 4))
    with pytest.raises(DataError, match="got 3 and 2"):
        SemiBatch(x, y, torch.zeros(2, 2))
    with pytest.raises(DataError, match="got 0 and 9"):
        SemiBatch(x[:0], y[:0], torch.zeros(9, 2))


@pytest.mark.parametrize("labels", [torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, 5, 1)])
def test_labels_at_every_position_are_as_many_as_positions(labels: torch.Tensor) -> None:
    x, lengths = torch.zeros(2, 4, dtype=torch.long), torch.tensor([4, 2])
    with pytest.raises(DataError, match="as many as the sequences have positions, 4; got 5"):
        LabeledSequences(x, labels, lengths)
    assert LabeledSequences(x, labels[:, :4], lengths).at_every_position
    with pytest.raises(DataError, match="as many lengths"):
        LabeledSequences(x, labels[:, :4], torch.tensor([4, 2, 2]))
