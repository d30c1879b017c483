"""Many graphs: a selection is the union of the chosen graphs, with their features, labels and pairs."""

import pytest
import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Batch, DataError, Graph, GraphBatch, Graphs, Labeled, LabeledGraphs, LabeledPairs


def some_graphs(weighted: bool = True) -> list[Graph]:
    """Graphs of 1 to 6 nodes, one of them without edges, with weights and features of edges."""
    random = torch.Generator().manual_seed(0)
    graphs = []
    for nodes in (3, 1, 6, 2, 4):
        edges = torch.randint(nodes, (2, 0 if nodes == 2 else 2 * nodes), generator=random)
        count = edges.shape[1]
        weight = torch.rand(count, generator=random) if weighted else None
        graphs.append(Graph(edges, nodes, weight, edge_features=torch.randn(count, 2, generator=random)))
    return graphs


def rows(graphs: list[Graph]) -> list[Tensor]:
    random = torch.Generator().manual_seed(1)
    return [torch.randn(graph.nodes, 3, generator=random) for graph in graphs]


@pytest.mark.parametrize("chosen", [[0], [4, 0, 2], [1, 1, 3, 1], [3], [2, 4, 3, 1, 0], []], ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_a_selection_is_the_union_of_what_was_chosen(chosen: list[int], weighted: bool) -> None:
    graphs, features = some_graphs(weighted), rows(some_graphs())
    batch = LabeledGraphs(torch.cat(features), torch.arange(5), Graph.union(graphs))
    part = batch.select(torch.tensor(chosen, dtype=torch.long))
    assert len(part) == part.weight == len(chosen)
    assert part.y.tolist() == chosen
    if not chosen:
        return
    wanted = Graph.union([graphs[i] for i in chosen])
    assert torch.equal(part.x, torch.cat([features[i] for i in chosen]))
    assert part.graph.parts == wanted.parts
    assert torch.equal(part.graph.edge_index, wanted.edge_index)
    assert torch.equal(part.graph.weights(), wanted.weights())
    assert part.graph.edge_features is not None
    assert wanted.edge_features is not None
    assert torch.equal(part.graph.edge_features, wanted.edge_features)
    again = part.select(torch.arange(len(chosen)).flip(0))  # of a selection, too
    assert again.y.tolist() == chosen[::-1]


@pytest.mark.parametrize("name", ["adjacency", "gcn", "random_walk", "symmetric_laplacian"])
def test_operators_of_a_selection_are_those_of_its_union(name: str) -> None:
    graphs = some_graphs()
    both_ways = [Graph(torch.cat([g.edge_index, g.edge_index.flip(0)], 1), g.nodes) for g in graphs]
    for each in (graphs, both_ways):
        whole = Graph.union(each)
        chosen = torch.tensor([4, 2, 2, 0, 3])
        wanted = Graph.union([each[i] for i in chosen])
        for dtype in (torch.float64, torch.float32):
            ours = whole.select(chosen).operator(name, dtype)  # type: ignore[arg-type]
            theirs = wanted.operator(name, dtype)  # type: ignore[arg-type]
            assert torch.equal(ours.to_dense(), theirs.to_dense())
            assert torch.equal(ours.T.to_dense(), theirs.T.to_dense())
            assert (ours.T is ours) == (theirs.T is theirs)


def test_labeled_pairs_follow_their_graphs() -> None:
    graphs = some_graphs()
    pairs = [torch.tensor([[0, 1], [2, 0]]), torch.tensor([[0], [0]]), torch.empty(2, 0).long()]
    pairs += [torch.tensor([[1], [0]]), torch.tensor([[3, 3, 0], [0, 1, 2]])]
    starts = [0, 3, 4, 10, 12]
    union = torch.cat([each + start for each, start in zip(pairs, starts, strict=True)], 1)
    batch = LabeledPairs(torch.zeros(16, 1), torch.arange(7), Graph.union(graphs), union)
    assert (len(batch), batch.weight) == (5, 7)
    part = batch.select(torch.tensor([4, 2, 0]))
    assert part.weight == 5
    assert part.y.tolist() == [4, 5, 6, 0, 1]
    assert part.pairs.tolist() == [[3, 3, 0, 10, 11], [0, 1, 2, 12, 10]]
    assert part.inputs[2] is part.pairs


def test_only_models_that_know_graphs_learn_from_them() -> None:
    assert LabeledGraphs.is_a(LabeledGraphs)
    assert LabeledGraphs.is_a(Graphs)
    assert LabeledGraphs.is_a(AnyBatch)
    for other in (Batch, Labeled, GraphBatch, LabeledPairs):
        assert not LabeledGraphs.is_a(other)
    assert not Graphs.is_a(LabeledGraphs)


def test_one_graph_is_one_example() -> None:
    alone = Graphs(torch.zeros(3, 2), some_graphs()[0])
    assert len(alone) == 1
    assert torch.equal(alone.select(torch.tensor([0])).graph.edge_index, alone.graph.edge_index)
    assert alone.rows(torch.tensor([0])).tolist() == [0, 1, 2]


def test_it_moves_with_all_its_tensors() -> None:
    batch = LabeledGraphs(torch.zeros(16, 1), torch.arange(5), Graph.union(some_graphs())).to("meta")
    assert batch.x.is_meta
    assert batch.y.is_meta
    assert batch.graph.edge_index.is_meta
    assert batch.graph.edge_features is not None
    assert batch.graph.edge_features.is_meta
    assert len(batch.select(torch.empty(7, dtype=torch.long, device="meta"))) == 7


def test_wrong_graphs_are_refused() -> None:
    union = Graph.union(some_graphs())
    with pytest.raises(DataError, match="graphs of 16 nodes need as many rows of x, got 15"):
        Graphs(torch.zeros(15, 1), union)
    with pytest.raises(DataError, match="got 5 graphs and 4 labels"):
        LabeledGraphs(torch.zeros(16, 1), torch.arange(4), union)
    with pytest.raises(DataError, match=r"2 labels need pairs of the shape \(2, 2\), got \(2, 1\)"):
        LabeledPairs(torch.zeros(16, 1), torch.arange(2), union, torch.zeros(2, 1).long())
    with pytest.raises(DataError, match="pairs must be of nodes 0 to 15"):
        LabeledPairs(torch.zeros(16, 1), torch.arange(1), union, torch.tensor([[0], [16]]))
    for wrong in ([[0], [5]], [[5, 0], [5, 0]]):
        with pytest.raises(DataError, match="of nodes of one graph, and be listed graph by graph"):
            LabeledPairs(torch.zeros(16, 1), torch.arange(len(wrong[0])), union, torch.tensor(wrong))
    across = Graph(torch.tensor([[0], [2]]), 3, parts=(1, 2))
    with pytest.raises(DataError, match="an edge joins two parts"):
        across.select(torch.tensor([0]))
    mixed = Graph(torch.tensor([[1, 0], [2, 0]]), 3, parts=(1, 2))
    with pytest.raises(DataError, match="must be listed part by part"):
        mixed.select(torch.tensor([0]))
