"""Tensors and arrays become data sets with the sizes of their shapes."""

from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core import (
    Batch,
    DataError,
    Graph,
    Graphs,
    ImagePairs,
    Incomplete,
    Labeled,
    LabeledGraphs,
    LabeledPairs,
    TwoDomains,
    UsageError,
)
from deepcanon.data import from_graphs, from_tensors
from deepcanon.data.suits import suits


def test_rows_without_labels() -> None:
    data = from_tensors(torch.arange(6.0).reshape(3, 2), name="mine")
    assert type(data.train) is Batch
    assert (data.name, data.kind, data.shape, dict(data.sizes)) == ("mine", "table", (2,), {"features": 2})
    assert data.train.x.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_images_with_classes() -> None:
    data = from_tensors(np.ones((4, 3, 5, 2), dtype=np.uint8), np.array([0, 2, 1, 2], dtype=np.int8))
    assert data.kind == "images"
    assert dict(data.sizes) == {"features": 30, "channels": 3, "height": 5, "width": 2, "classes": 3}
    assert data.labels == ("0", "1", "2")
    assert isinstance(data.train, Labeled)
    assert data.train.x.dtype == torch.float32
    assert data.train.y.dtype == torch.int64
    assert data.train.y.tolist() == [0, 2, 1, 2]


def test_real_labels_are_targets() -> None:
    one = from_tensors(np.zeros((3, 2)), [0.5, 1.5, 2.5])
    two = from_tensors(np.zeros((3, 2)), torch.ones(3, 2))
    assert one.train.y.tolist() == [[0.5], [1.5], [2.5]]
    assert one.sizes["targets"] == 1
    assert two.sizes["targets"] == 2


def test_only_tensors_of_float64_stay_float64() -> None:
    x = torch.rand(3, 2, dtype=torch.float64)
    assert from_tensors(x, np.zeros(3)).train.x.dtype == torch.float64
    assert from_tensors(x, np.zeros(3)).train.y.dtype == torch.float64
    assert from_tensors(x.numpy(), x[:, 0]).train.x.dtype == torch.float32
    assert from_tensors(x.numpy(), x[:, 0]).train.y.dtype == torch.float32
    assert from_tensors(x.half()).train.x.dtype == torch.float32
    assert from_tensors(torch.tensor([[True], [False]]), torch.tensor([True, False])).sizes["classes"] == 2


def test_arrays_are_copied_and_gradients_left_behind() -> None:
    array = np.zeros((2, 2))
    array.setflags(write=False)
    assert from_tensors(array).train.x.tolist() == [[0, 0], [0, 0]]
    assert not from_tensors(torch.zeros(2, 2, requires_grad=True)).train.x.requires_grad


@pytest.mark.parametrize(
    ("x", "y", "problem"),
    [
        (np.zeros(3), None, r"x must have the shape .* got \(3,\)"),
        (np.zeros((3, 4, 4)), None, r"got \(3, 4, 4\)"),
        (np.zeros((0, 4)), None, r"got \(0, 4\)"),
        ([[1.0, float("nan")]], None, "x has NaN or infinite"),
        ([[1.0, float("inf")]], None, "x has NaN or infinite"),
        ([["red"]], None, "x must be a tensor or an array of numbers"),
        (np.zeros((2, 1), dtype=complex), None, "x must be real"),
        (np.zeros((2, 1)), [float("nan"), 1], "y has NaN or infinite"),
        (np.zeros((2, 1)), [-1, 0], "must count from 0, got -1"),
        (np.zeros((2, 1)), [[0], [1]], r"classes y must have the shape \(N,\), got \(2, 1\)"),
        (np.zeros((2, 1)), np.zeros((2, 1, 1)), "real-valued y must have the shape"),
        (np.zeros((2, 1)), [0, 1, 1], "2 examples and 3 labels"),
    ],
)
def test_what_is_no_data_is_refused(x: Any, y: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        from_tensors(x, y)


def test_another_domain_is_paired_only_as_images() -> None:
    unpaired = from_tensors(np.zeros((6, 3)), unpaired=np.ones((4, 3)))
    assert type(unpaired.train) is TwoDomains
    assert (unpaired.kind, dict(unpaired.sizes), len(unpaired.train)) == ("domains", {"features": 3}, 6)
    assert unpaired.train.y.dtype == torch.float32
    pairs = from_tensors(torch.zeros(5, 1, 2, 2), torch.ones(5, 3, 2, 2))
    assert type(pairs.train) is ImagePairs
    assert (pairs.kind, pairs.sizes["features"]) == ("domains", 4)
    targets = from_tensors(np.zeros((4, 3)), np.ones((4, 3)))
    assert type(targets.train) is Labeled
    with pytest.raises(UsageError, match="give one of them"):
        from_tensors(np.zeros((4, 3)), np.ones(4), unpaired=np.ones((4, 3)))
    with pytest.raises(DataError, match=r"the other domain must have the shape .* got \(4,\)"):
        from_tensors(np.zeros((4, 3)), unpaired=np.ones(4))
    with pytest.raises(DataError, match="every example needs one image: got 5 examples and 4 images"):
        from_tensors(torch.zeros(5, 1, 2, 2), torch.ones(4, 1, 2, 2))


PATH = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=3)
PAIR = Graph(torch.tensor([[0, 1], [1, 0]]), nodes=2)


def test_graphs_with_features_and_labels() -> None:
    rows = [np.zeros((3, 4)), np.ones((2, 4))]
    data = from_graphs([PATH, PAIR], rows, [1, 0], name="mine")
    assert (data.name, data.kind, data.shape) == ("mine", "graphs", (4,))
    assert dict(data.sizes) == {"features": 4, "classes": 2}
    assert isinstance(data.train, LabeledGraphs)
    assert data.train.x.dtype == torch.float32
    assert data.train.x[:, 0].tolist() == [0, 0, 0, 1, 1]
    assert data.train.graph.parts == (3, 2)
    targets = from_graphs([PATH, PAIR], torch.zeros(5, 1, dtype=torch.float64), [0.5, 1.5])
    assert targets.sizes["targets"] == 1
    assert targets.train.y.dtype == torch.float64


def test_graphs_without_features_or_labels_and_unions_as_one_graph() -> None:
    data = from_graphs([PATH, Graph.union([PAIR, PAIR])])
    assert type(data.train) is Graphs
    assert data.train.graph.parts == (3, 4)
    assert data.train.x.tolist() == [[1.0]] * 7
    assert "classes" not in data.sizes


def test_pairs_of_nodes_with_labels() -> None:
    pairs = [torch.tensor([[0, 2], [1, 0]]), torch.tensor([[1], [0]])]
    data = from_graphs([PATH, PAIR], y=[0, 1, 1], pairs=pairs)
    assert isinstance(data.train, LabeledPairs)
    assert data.train.pairs.tolist() == [[0, 2, 4], [1, 0, 3]]
    assert data.train.weight == 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (([],), "must be a list of Graph, got an empty one"),
        (([PATH, "path"],), "must be a list of Graph, got one with a str"),
        (([PATH], torch.zeros(2, 1)), r"3 nodes need features of the shape \(3, features\), got \(2, 1\)"),
        (([PATH], torch.zeros(3)), r"got \(3,\)"),
        (([PATH], torch.full((3, 1), torch.nan)), "features has NaN"),
        (([PATH], torch.zeros(3, 1), [0, 1]), "got 1 graphs and 2 labels"),
    ],
)
def test_what_is_not_a_list_of_graphs_is_refused(arguments: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        from_graphs(*arguments)
    with pytest.raises(DataError, match="give their labels"):
        from_graphs([PATH], pairs=[torch.zeros(2, 1).long()])
    with pytest.raises(DataError, match="graphs are given to from_graphs"):
        from_tensors([PATH])  # type: ignore[arg-type]


def test_rows_with_missing_entries_never_show_what_is_not_there() -> None:
    x = torch.tensor([[1.0, float("nan")], [float("inf"), 4.0], [9.0, 2.0]])
    observed = torch.tensor([[True, False], [False, True], [False, True]])
    data = from_tensors(x, observed=observed)
    assert isinstance(data.train, Incomplete)
    assert (data.kind, dict(data.sizes)) == ("ratings", {"features": 2, "ratings": 4})
    assert data.train.x.nan_to_num(0).tolist() == [[1, 0], [0, 4], [0, 2]]
    assert torch.equal(data.train.observed, observed)
    table = from_tensors(np.array([[0.5, np.nan]]), observed=[[True, False]])
    assert (table.kind, dict(table.sizes)) == ("table", {"features": 2})


def test_rows_with_missing_entries_are_checked() -> None:
    x = torch.tensor([[1.0, float("nan")]])
    with pytest.raises(DataError, match="what is observed of x has NaN"):
        from_tensors(x, observed=torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(DataError, match=r"x and observed must have the shape .* got \(1, 2\) and torch\.int64"):
        from_tensors(x, observed=torch.ones(1, 2, dtype=torch.long))
    with pytest.raises(UsageError, match="have no labels y"):
        from_tensors(x, [1], observed=~x.isnan())


def test_one_graph_with_classes_of_its_nodes() -> None:
    path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=3)
    data = dc.data.of(path, torch.eye(3), [0, 0, 1], mask=[True, False, True])
    assert suits(catalogue.find("gcn"), data)
    assert data.kind == "graph"
    assert data.train.counted.tolist() == [0, 2]
    assert dc.data.of(path, torch.eye(3), [1]).kind == "graphs"  # one label, of the graph
    with pytest.raises(UsageError, match="mask says which of the classes y of 3 nodes are known"):
        dc.data.of(path, torch.eye(3), mask=[True, False, True])
    with pytest.raises(DataError, match="mask is true where a class is known"):
        dc.data.of(path, torch.eye(3), [0, 0, 1], mask=[False] * 3)


def test_labels_in_the_padding_are_no_classes() -> None:
    data = dc.data.of(
        torch.zeros(2, 4, dtype=torch.long), torch.tensor([[0, 1, 99, 99], [1, 0, 2, 99]]), lengths=[2, 3]
    )
    assert data.sizes["classes"] == 3


def test_one_length_stands_for_all_rows() -> None:
    tokens = torch.tensor([[1, 5, 2, 6, 2]] * 3)
    pairs = dc.data.of(tokens, tokens[:, [0, 1, 4]], lengths=4, y_lengths=3)
    assert pairs.train.lengths.tolist() == [4, 4, 4]
    segments = torch.tensor([[0, 0, 0, 1, 1]] * 3)
    sentences = dc.data.of(tokens, [0, 1, 0], lengths=5, segments=segments)
    assert sentences.train.lengths.tolist() == [5, 5, 5]
    with pytest.raises(DataError, match="segments are 0 up to the first separator and 1 after it"):
        dc.data.of(tokens, [0, 1, 0], lengths=5, segments=segments - 1)


def test_arrays_that_run_backwards_are_taken() -> None:
    x = np.arange(6.0).reshape(3, 2)
    assert dc.data.of(x[::-1]).train.x.tolist() == [[4.0, 5.0], [2.0, 3.0], [0.0, 1.0]]
