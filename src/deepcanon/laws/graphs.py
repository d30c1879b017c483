"""The laws of graph-level models: any module of many graphs, ``f(x, graph)``, with a row for every graph.

``x`` are the features of all nodes, (nodes, features), and ``graph`` is the union of the graphs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Graph, Graphs, LabeledPairs, UsageError
from deepcanon.laws.classifier import stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, violations
from deepcanon.laws.probe import LOOSE, TIGHT, distance, seeded


@law
def every_graph_gets_one_finite_row(module: nn.Module, batch: Graphs) -> Measured:
    """The output has a finite row for every graph, also for one without edges, one of one node, and one of none."""
    module, batch, _ = _precise(module, batch)
    faults = []
    with torch.no_grad():
        cases = {"the graphs": batch, "graphs without edges": _bare(batch), "an empty graph": _hollow(batch)}
        for what, some in cases.items():
            rows = _rows(module, some)
            if len(rows) != len(some):
                faults.append(f"{len(some)} graphs give {tuple(rows.shape)} on {what}")
            elif not rows.isfinite().all():
                faults.append(f"{int((~rows.isfinite()).flatten(1).any(1).sum())} rows are not finite on {what}")
    return violations(faults, f"{len(batch)} graphs, with edges and without, and with an empty one")


@law
def order_of_nodes_does_not_matter(module: nn.Module, batch: Graphs) -> Measured:
    """The readout is permutation invariant: a graph whose nodes are numbered otherwise gets the same row."""
    module, batch, bound = _precise(module, batch)
    order = _shuffled(batch.graph)
    number = order.argsort()  # the new number of each node
    other = replace(batch, x=batch.x[order], graph=replace(batch.graph, edge_index=number[batch.graph.edge_index]))
    with torch.no_grad():
        gap = distance(_rows(module, other), _rows(module, batch))
    return gap, bound, f"the nodes of {len(batch)} graphs numbered otherwise"


@law
def order_of_edges_does_not_matter(module: nn.Module, batch: Graphs) -> Measured:
    """Aggregation is permutation invariant: the edges of every graph in another order give the same."""
    module, batch, bound = _precise(module, batch)
    owner = batch.graph.membership()[batch.graph.edge_index[0]]
    drawn = torch.rand(len(owner), generator=seeded(0), dtype=torch.float64)
    other = replace(batch, graph=_edges(batch.graph, (owner + drawn).argsort()))
    with torch.no_grad():
        gap = distance(_rows(module, other), _rows(module, batch))
    return gap, bound, f"{len(owner)} edges in another order"


@law
def graphs_do_not_mix(module: nn.Module, batch: Graphs) -> Measured:
    """A graph gets the row that it gets alone, whatever other graphs are in the union and in which order."""
    module, batch, bound = _precise(module, batch)
    order = torch.randperm(len(batch), generator=seeded(0)).roll(1)
    with torch.no_grad():
        together = _rows(module, batch)
        alone = torch.cat([_rows(module, batch.select(torch.tensor([i]))) for i in range(len(batch))])
        moved = _rows(module, batch.select(order))
    apart, turned = distance(alone, together), distance(moved, together[order])
    gap = math.nan if math.isnan(apart) or math.isnan(turned) else max(apart, turned)
    return gap, bound, f"{len(batch)} graphs: alone they move by {apart:.2g}, in another order by {turned:.2g}"


@law
def nan_in_another_graph_stays_there(module: nn.Module, batch: Graphs) -> Measured | None:
    """Whatever stands in the other graphs of the union, even NaN, the row of a graph does not change."""
    if len(batch) < 2:
        return None
    module, batch, bound = _precise(module, batch)
    worst, where = 0.0, "no row moves"
    with torch.no_grad():
        healthy = _rows(module, batch)
        for i in range(min(4, len(batch))):
            kept = batch.rows(torch.tensor([i]))
            poisoned = torch.full_like(batch.x, math.nan).index_copy(0, kept, batch.x[kept])
            gap = distance(_rows(module, replace(batch, x=poisoned))[i], healthy[i])
            if not gap <= worst:
                worst, where = gap, f"graph {i} moves by {gap:.2g} when all others are NaN"
    return worst, bound, where


@law
def edges_count(module: nn.Module, batch: Graphs) -> Measured:
    """Messages flow: without its edges a graph gets another row."""
    module, batch, _ = _precise(module, batch)
    with torch.no_grad():
        gap = distance(_rows(module, _bare(batch)), _rows(module, batch))
    faults = [] if gap > TIGHT else ["the rows stay the same without any edge"]
    return violations(faults, f"without edges rows move by {gap:.2g}")


LAWS = (
    every_graph_gets_one_finite_row,
    order_of_nodes_does_not_matter,
    order_of_edges_does_not_matter,
    graphs_do_not_mix,
    nan_in_another_graph_stays_there,
    edges_count,
)


def check_graphs(module: nn.Module, batch: Any) -> list[Outcome]:
    """The outcomes of the laws of graph-level models for any module that is called with features and a union."""
    if not isinstance(batch, Graphs) or isinstance(batch, LabeledPairs):
        raise UsageError("a graph-level model is checked on many graphs: Graphs or LabeledGraphs(x, y, graph)")
    return outcomes(LAWS, module, batch)


def _rows(module: Callable[..., Tensor], batch: Graphs) -> Tensor:
    return module(*batch.inputs)


def _precise(module: nn.Module, batch: Graphs) -> tuple[nn.Module, Graphs, float]:
    """The module with perturbed parameters in eval mode, the batch, and the bound that fits their precision."""
    module = stirred(module).eval()
    double, wide = copy.deepcopy(module).double(), replace(batch, x=batch.x.double())
    try:
        with torch.no_grad():
            if _rows(double, wide).dtype == torch.float64:
                return double, wide, TIGHT
    except RuntimeError:  # which torch raises where precisions meet
        pass
    return module.float(), replace(batch, x=batch.x.float()), LOOSE


def _shuffled(graph: Graph) -> Tensor:
    """An order of all nodes in which the nodes of each part stay together."""
    drawn = torch.rand(graph.nodes, generator=seeded(0), dtype=torch.float64)
    return (graph.membership() + drawn).argsort()


def _edges(graph: Graph, kept: Tensor) -> Graph:
    """The graph with these of its edges, in this order."""
    weight, features = (None if value is None else value[kept] for value in (graph.weight, graph.edge_features))
    return Graph(graph.edge_index[:, kept], graph.nodes, weight, graph.parts, features)


def _bare(batch: Graphs) -> Graphs:
    return replace(batch, graph=_edges(batch.graph, torch.empty(0, dtype=torch.long)))


def _hollow(batch: Graphs) -> Graphs:
    """The first graph, a single node, and a graph of no nodes."""
    one = batch.graph.select(torch.tensor([0]))
    kept = batch.rows(torch.tensor([0]))
    graph = Graph(one.edge_index, one.nodes + 1, one.weight, (one.nodes, 1, 0), one.edge_features)
    fields: dict[str, Any] = {"x": torch.cat([batch.x[kept], batch.x[kept[:1]]]), "graph": graph}
    if hasattr(batch, "y"):
        fields["y"] = batch.y[:1].repeat(3, *[1] * (batch.y.ndim - 1))
    return type(batch)(**fields)
