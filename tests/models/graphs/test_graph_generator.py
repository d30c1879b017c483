"""The graph generator is a distribution over graphs, learns one of known entropy, and draws graphs of its families."""

import csv
import math
from pathlib import Path

import networkx as nx
import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError, Graph, Graphs, UsageError
from deepcanon.data import load_data
from deepcanon.data.sets.graph_families import ring, star
from deepcanon.laws.graph_density import every_graph
from deepcanon.models.graphs.graph_generator import GraphGenerator
from deepcanon.runs.sampling import edge_columns
from deepcanon.train.baseline import EqualEdges


def graph(pairs: list[tuple[int, int]], nodes: int) -> Graph:
    edges = torch.tensor([*pairs, *((b, a) for a, b in pairs)], dtype=torch.long).view(-1, 2).T
    return Graph(edges, nodes)


def to_networkx(graphs: Graph, number: int) -> "nx.Graph[int]":
    one = graphs.select(torch.tensor([number]))
    found: nx.Graph[int] = nx.Graph(one.edge_index.T.tolist())
    found.add_nodes_from(range(one.nodes))
    return found


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
def test_the_likelihood_sums_to_one_over_all_graphs_of_so_many_nodes(nodes: int) -> None:
    torch.manual_seed(0)
    model = GraphGenerator(largest=6, units=8, edge_units=5).double()
    model.prepare([Graphs(torch.ones(5, 1), Graph.union([graph([], 2), graph([], 3)]))])
    share = float(model.counts[nodes] / model.counts.sum())
    mass = model.log_prob(Graph.union(every_graph(nodes))).exp().sum()
    assert mass.item() == pytest.approx(share, rel=1e-6)  # the shares of the nodes are in single precision


def test_the_number_of_nodes_is_that_of_the_training_graphs() -> None:
    model = GraphGenerator(largest=4)
    union = Graph.union([graph([], 2), graph([], 2), graph([(0, 1)], 3)])
    model.prepare([Graphs(torch.ones(7, 1), union)])
    torch.testing.assert_close(model.counts, torch.tensor([0.2, 0.2, 2.2, 1.2, 0.2]))


def test_an_edge_depends_on_those_before_it_only() -> None:
    torch.manual_seed(0)
    model = GraphGenerator(largest=5, units=8, edge_units=5).double()
    triangle, more = graph([(0, 1), (0, 2), (1, 2)], 3), graph([(0, 1), (0, 2), (1, 2), (3, 1)], 4)
    other = graph([(0, 1), (0, 2), (1, 2), (3, 0), (3, 2)], 4)
    both = model.log_prob(Graph.union([more, other]))
    rest = torch.logsumexp(model.log_prob(Graph.union([_with_row(triangle, bits) for bits in range(8)])), 0)
    assert bool((both < rest).all())
    alone = GraphGenerator(largest=5, units=8, edge_units=5).double()
    alone.load_state_dict(model.state_dict())
    alone.left.weight.data.zero_()  # without the number of nodes to come, the first rows do not know of the last
    rest = torch.logsumexp(alone.log_prob(Graph.union([_with_row(triangle, bits) for bits in range(8)])), 0)
    torch.testing.assert_close(rest, alone.log_prob(triangle).squeeze(0), rtol=0, atol=1e-12)


def _with_row(first: Graph, bits: int) -> Graph:
    """The graph with one more node, joined to those nodes whose bits are set."""
    more = [(first.nodes, i) for i in range(first.nodes) if bits >> i & 1]
    return graph([*((a, b) for a, b in first.edge_index.T.tolist() if a < b), *more], first.nodes + 1)


@pytest.mark.slow
def test_it_learns_rings_and_stars_up_to_their_entropy() -> None:
    sizes = (4, 5, 6, 7)
    shapes = [graph(family(nodes), nodes) for family in (ring, star) for nodes in sizes]
    union = Graph.union(shapes * 8)
    data = dc.from_graphs(shapes * 8, torch.ones(union.nodes, 1))
    torch.manual_seed(0)
    model = GraphGenerator(largest=7)
    dc.fit(model, data, epochs=150, quiet=True, evaluate=False)
    batch = Graphs(torch.ones(sum(s.nodes for s in shapes), 1), Graph.union(shapes))
    nll = model.loss(batch)["nll"].item()
    entropy = math.log(len(shapes))  # in breadth-first order each of them has one adjacency matrix
    assert entropy - 1e-6 <= nll < entropy + 0.1
    drawn = model.sample(200, generator=torch.Generator().manual_seed(0))
    known = [to_networkx(Graph.union(shapes), number) for number in range(len(shapes))]
    right = sum(any(nx.is_isomorphic(to_networkx(drawn, i), one) for one in known) for i in range(200))
    assert right >= 180


@pytest.mark.slow
def test_by_its_recipe_it_soon_knows_the_embedded_families_better_than_edges_at_random() -> None:
    data = load_data("graph-families")
    torch.manual_seed(0)
    model = GraphGenerator()
    result = dc.fit(model, data, epochs=8, quiet=True)
    random = EqualEdges(data.train).scores(data.split("test"))["nll"]
    assert result.test["nll"] < random / 2


@pytest.mark.slow
def test_samples_are_written_by_their_edges_and_as_a_picture(tmp_path: Path, drawn: None) -> None:
    run = dc.Run.train(
        "graph_generator:units=8,edge_units=4", out=tmp_path / "run", steps=2, pictures=False, quiet=True
    )
    assert (run.draw() / "samples.png").is_file()
    graphs = run.sample(5, out=tmp_path / "a.csv", seed=1)
    assert isinstance(graphs, Graph)
    with (tmp_path / "a.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert sum(row["target"] != "" for row in rows) == graphs.edge_index.shape[1] // 2
    assert {int(row["graph"]) for row in rows} == {i for i, nodes in enumerate(graphs.parts) if nodes}
    run.sample(4, out=tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
    with pytest.raises(UsageError, match="at most 60 samples"):
        run.sample(61, out=tmp_path / "b.png")


def test_a_node_without_edges_is_not_lost() -> None:
    union = Graph.union([graph([(0, 2)], 3), graph([], 1)])
    assert edge_columns(union) == {"graph": [0, 0, 1], "source": [0, 1, 0], "target": [2, None, None]}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (graph([], 9), "at most 4 nodes, and one has 9; give it largest=9"),
        (Graph(torch.tensor([[0], [1]]), 2), "list every edge both ways"),
        (Graph(torch.tensor([[1], [1]]), 2), "no self-loops"),
        (Graph(torch.tensor([[0, 1], [1, 0]]), 2, weight=torch.ones(2)), "neither weights nor features"),
    ],
)
def test_graphs_that_it_has_no_likelihood_of_are_refused(given: Graph, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        GraphGenerator(largest=4).log_prob(given)


def test_context_and_draws_are_refused() -> None:
    model = GraphGenerator(largest=4)
    with pytest.raises(UsageError, match="context"):
        model.sample(2, context=torch.zeros(2))
    with pytest.raises(UsageError, match="leave out samples"):
        model.log_prob(graph([], 2), samples=3)
