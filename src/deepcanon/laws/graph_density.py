"""The laws of distributions over graphs: modules with ``log_prob(graph)`` of a union, and ``sample(n)`` that gives one.

Graphs have their nodes in an order, edges are listed both ways. Where the largest number of nodes is small, all graphs
are enumerated.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Graph, Graphs, UsageError
from deepcanon.laws.discrete import DRAWS, chi_square, stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, violations
from deepcanon.laws.probe import TIGHT, distance, doubled, seeded, total

LARGEST = 4
"""The largest number of nodes of which all graphs are enumerated."""


@law
def probabilities_of_all_graphs_sum_to_one(module: Any, batch: Graphs) -> Measured | None:
    """The probabilities of all graphs of any number of nodes sum to 1."""
    module, batch = doubled(stirred(module), batch)
    graphs = _every(module)
    if graphs is None:
        return None
    with torch.no_grad():
        mass = float(module.log_prob(Graph.union(graphs)).double().logsumexp(0).exp())
    return abs(mass - 1), 1e-6, f"the probabilities of all {len(graphs)} graphs sum to {mass:.9g}"


@law
def samples_follow_the_probabilities(module: Any, batch: Graphs) -> Measured | None:
    """Graphs drawn by ``sample`` occur as often as ``log_prob`` says (chi-square)."""
    module, batch = doubled(stirred(module), batch)
    graphs = _every(module)
    if graphs is None:
        return None
    with torch.no_grad():
        expected = DRAWS * module.log_prob(Graph.union(graphs)).double().exp()
        drawn = module.sample(DRAWS, generator=seeded(0))
    return chi_square(_codes(drawn), _codes(Graph.union(graphs)), expected)


@law
def samples_are_graphs(module: Any, batch: Graphs) -> Measured:
    """A sample is a union of so many undirected graphs without self-loops, which have a likelihood."""
    module, batch = doubled(module, batch)
    faults = []
    for count in (7, 1, 0):
        drawn = module.sample(count, generator=seeded(0))
        source, target = drawn.edge_index
        if len(drawn.parts) != count:
            faults.append(f"sample({count}) gives {len(drawn.parts)} graphs")
        if bool((source == target).any()):
            faults.append(f"sample({count}) has self-loops")
        if set(zip(source.tolist(), target.tolist(), strict=True)) != set(
            zip(target.tolist(), source.tolist(), strict=True)
        ):
            faults.append(f"sample({count}) has edges in one direction only")
        if count and not faults and not bool(module.log_prob(drawn).isfinite().all()):
            faults.append(f"sample({count}) has no likelihood")
    return violations(faults, "samples of 7, 1 and no graphs")


@law
def graphs_do_not_mix(module: Any, batch: Graphs) -> Measured:
    """A graph has the likelihood that it has alone, in whatever union and order."""
    module, batch = doubled(stirred(module), batch)
    order = torch.randperm(len(batch), generator=seeded(0))
    with torch.no_grad():
        together = module.log_prob(batch.graph)
        alone = torch.cat([module.log_prob(batch.graph.select(torch.tensor([i]))) for i in range(len(batch))])
        moved = module.log_prob(batch.graph.select(order))
    gap = max(distance(alone, together), distance(moved, together[order]))
    return gap, TIGHT, f"{len(batch)} graphs, each also alone, and all in another order"


@law
def loss_is_the_nll_in_some_order(module: Any, batch: Graphs) -> Measured | None:
    """The loss of a graph is its negative log-likelihood with the nodes in one of their orders."""
    if not hasattr(module, "loss"):
        return None
    module, batch = doubled(stirred(module), batch)
    worst, seen = 0.0, 0
    for i in range(len(batch)):
        one = batch.select(torch.tensor([i]))
        if one.graph.nodes > LARGEST:
            continue
        orders = [
            Graph(_renumbered(one.graph, order), one.graph.nodes) for order in permutations(range(one.graph.nodes))
        ]
        with torch.no_grad():
            nats, loss = -module.log_prob(Graph.union(orders)), float(total(module.loss(one)))
        worst, seen = max(worst, float((nats - loss).abs().min())), seen + 1
    return (worst, TIGHT, f"{seen} graphs in all orders of their nodes") if seen else None


LAWS = (
    probabilities_of_all_graphs_sum_to_one,
    samples_follow_the_probabilities,
    samples_are_graphs,
    graphs_do_not_mix,
    loss_is_the_nll_in_some_order,
)


def check_graph_density(module: nn.Module, batch: Any) -> list[Outcome]:
    """The outcomes of the laws of distributions over graphs."""
    if not isinstance(batch, Graphs):
        raise UsageError(f"a distribution over graphs is held to its laws on Graphs, got {type(batch).__name__}")
    return outcomes(LAWS, module, batch)


def _every(module: Any) -> list[Graph] | None:
    """All graphs that the module has a probability of; None where they are too many, or not known."""
    largest = getattr(module, "largest", LARGEST + 1)
    if largest > LARGEST:
        return None
    return [graph for nodes in range(largest + 1) for graph in every_graph(nodes)]


def every_graph(nodes: int) -> list[Graph]:
    """All undirected graphs of so many nodes.

    >>> [len(every_graph(nodes)) for nodes in range(5)]
    [1, 1, 2, 8, 64]
    """
    pairs = [(i, j) for i in range(nodes) for j in range(i)]
    found = []
    for bits in product((False, True), repeat=len(pairs)):
        edges = [(i, j) for (a, b), there in zip(pairs, bits, strict=True) if there for i, j in ((a, b), (b, a))]
        found.append(Graph(torch.tensor(edges, dtype=torch.long).view(-1, 2).T, nodes))
    return found


def _codes(graph: Graph) -> Tensor:
    """Each graph of a union as a row of numbers: that of its nodes, and the bits of its adjacency matrix."""
    rows = []
    for i in range(len(graph.parts)):
        one = graph.select(torch.tensor([i]))
        bits = torch.zeros(LARGEST, LARGEST)
        bits[one.edge_index[0], one.edge_index[1]] = 1.0
        rows.append(torch.cat([torch.tensor([float(one.nodes)]), bits.flatten()]))
    return torch.stack(rows)


def _renumbered(graph: Graph, order: tuple[int, ...]) -> Tensor:
    """The edges with the nodes numbered by their places in this order."""
    number = torch.tensor(order, dtype=torch.long).argsort()
    return number[graph.edge_index]
