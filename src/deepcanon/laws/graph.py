"""The laws of graph layers: any module of message passing, called as ``f(x, edge_index)``, with a row for every node.

``x`` is (nodes, features), ``edge_index`` (2, E) from the first row to the second, as in PyTorch Geometric.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Graph, GraphBatch, UsageError
from deepcanon.laws.classifier import stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, violations
from deepcanon.laws.probe import LOOSE, TIGHT, distance, same, seeded
from deepcanon.laws.slope import slopes

NODES = 10
FEATURES = ("in_features", "in_channels")
"""The attributes in which layers keep their number of input features."""


@law
def every_node_gets_one_finite_row(module: nn.Module, batch: GraphBatch) -> Measured:
    """The output has a finite row for every node, also where no edge is left."""
    module, x, edges, _ = _precise(module, batch)
    faults = []
    with torch.no_grad():
        for what, some in (("the graph", edges), ("its nodes without edges", edges[:, :0])):
            rows = module(x, some)
            if len(rows) != len(x):
                faults.append(f"{len(x)} nodes give {tuple(rows.shape)} on {what}")
            elif not rows.isfinite().all():
                faults.append(f"{int((~rows.isfinite()).flatten(1).any(1).sum())} rows are not finite on {what}")
    return violations(faults, f"{len(x)} nodes, with {edges.shape[1]} edges and with none")


@law
def order_of_nodes_does_not_matter(module: nn.Module, batch: GraphBatch) -> Measured:
    """The layer is permutation equivariant: nodes in another order get the same rows in that order."""
    module, x, edges, bound = _precise(module, batch)
    order = torch.randperm(len(x), generator=seeded(0)).roll(1)
    number = order.argsort()  # the new number of each node
    with torch.no_grad():
        gap = distance(module(x[order], number[edges]), module(x, edges)[order])
    return gap, bound, f"{len(x)} nodes numbered otherwise"


@law
def order_of_edges_does_not_matter(module: nn.Module, batch: GraphBatch) -> Measured:
    """Aggregation is permutation invariant: the edges in another order give the same."""
    module, x, edges, bound = _precise(module, batch)
    order = torch.randperm(edges.shape[1], generator=seeded(0))
    with torch.no_grad():
        gap = max(distance(module(x, edges[:, some]), module(x, edges)) for some in (order, order.flip(0)))
    return gap, bound, f"{edges.shape[1]} edges in another order"


@law
def isolated_nodes_stay_alone(module: nn.Module, batch: GraphBatch) -> Measured:
    """Nodes without edges change no other row, and get the finite row that they get in a graph of their own."""
    module, x, edges, bound = _precise(module, batch)
    lonely = torch.randn(3, x.shape[1], generator=seeded(0), dtype=x.dtype)
    with torch.no_grad():
        rows, before = module(torch.cat([x, lonely]), edges), module(x, edges)
        alone = torch.cat([module(node, edges[:, :0]) for node in lonely.split(1)])
    if len(rows) != len(x) + len(lonely):
        return math.inf, bound, f"{len(x)} nodes and {len(lonely)} isolated ones give {len(rows)} rows"
    others, own = distance(rows[: len(x)], before), distance(rows[len(x) :], alone)
    gap = math.nan if math.isnan(others) or math.isnan(own) else max(others, own)
    return (
        gap,
        bound,
        f"3 isolated nodes move the others by {others:.2g}, and are {own:.2g} from what they are alone",
    )


@law
def graphs_side_by_side_do_not_mix(module: nn.Module, batch: GraphBatch) -> Measured:
    """Two graphs in one, block-diagonally, get the rows that each gets alone: this is how graphs are batched."""
    module, x, edges, bound = _precise(module, batch)
    other, links = _another(x, edges)
    with torch.no_grad():
        together = module(torch.cat([x, other]), torch.cat([edges, links + len(x)], 1))
        apart = torch.cat([module(x, edges), module(other, links)])
    return distance(together, apart), bound, f"graphs of {len(x)} and {len(other)} nodes"


@law
def nan_in_another_graph_stays_there(module: nn.Module, batch: GraphBatch) -> Measured:
    """Whatever stands in another graph of the batch, even NaN, the rows of this one do not change."""
    module, x, edges, bound = _precise(module, batch)
    other, links = _another(x, edges)
    both = torch.cat([edges, links + len(x)], 1)
    with torch.no_grad():
        healthy, poisoned = (
            module(torch.cat([x, rows]), both)[: len(x)] for rows in (other, torch.full_like(other, math.nan))
        )
    gap = distance(poisoned, healthy)
    return gap, bound, f"{len(x)} rows move by {gap:.2g} when the other graph is NaN"


@law
def messages_follow_the_edges(module: nn.Module, batch: GraphBatch) -> Measured | None:
    """Messages pass from source to target: on a directed path a change reaches the next node and none before it.

    A module whose ``reach`` says ``"component"``, as that of attention to all nodes does, has no messages along edges.
    """
    if getattr(module, "reach", "edges") == "component":
        return None
    module, x, _, bound = _precise(module, batch)
    path = torch.stack([torch.arange(NODES - 1), torch.arange(1, NODES)])
    random = seeded(0)
    x = torch.randn(NODES, x.shape[1], generator=random, dtype=x.dtype)
    middle = NODES // 2
    reached, back = False, 0.0
    with torch.no_grad():
        before = module(x, path)
        for _ in range(8):  # an activation may swallow one change
            other = x.clone()
            other[middle] += torch.randn(x.shape[1], generator=random, dtype=x.dtype)
            after = module(other, path)
            back = max(back, distance(after[:middle], before[:middle]))
            reached |= not same(after[middle + 1], before[middle + 1])
    faults = [] if back <= bound else [f"a change moves nodes before it by {back:.2g}: edges go from row 0 to row 1"]
    if not reached:
        faults.append("a change never reaches the next node")
    return violations(faults, f"a change on a path of {NODES} nodes went forwards only")


@law
def same_input_same_output(module: nn.Module, batch: GraphBatch) -> Measured:
    """In eval mode the output is deterministic and no state is kept, not even of the last graph."""
    module, x, edges, _ = _precise(module, batch)
    other, links = _another(x, edges)
    with torch.no_grad():
        torch.manual_seed(1)
        once = module(x, edges)
        module(other, links)
        torch.manual_seed(2)
        gap = distance(module(x, edges), once)
    return gap, 0, "the same graph before and after another one"


@law
def gradient_is_the_slope(module: nn.Module, batch: GraphBatch) -> Measured | None:
    """Gradients, those of the features too, agree with central differences in double precision, along random lines."""
    module, x, edges, bound = _precise(module, batch)
    if bound > TIGHT:  # differences in single precision say nothing
        return None
    fed = _Fed(module, x)
    pull = torch.randn(module(x, edges).shape, generator=seeded(1), dtype=x.dtype)
    return slopes(fed, lambda: (module(fed.x, edges) * pull).sum())


@law
def a_change_reaches_the_whole_component(module: nn.Module, batch: GraphBatch) -> Measured | None:
    """What ``reach`` says is so: in one pass a change reaches every node that any path leads to, however far."""
    if getattr(module, "reach", "edges") != "component":
        return None
    module, x, _, _ = _precise(module, batch)
    path = torch.stack([torch.arange(4 * NODES - 1), torch.arange(1, 4 * NODES)])
    edges = torch.cat([path, path.flip(0)], 1)
    x = torch.randn(4 * NODES, x.shape[1], generator=seeded(0), dtype=x.dtype)
    other = x.clone()
    other[0] += 1.0
    with torch.no_grad():
        moved = (module(other, edges) - module(x, edges)).abs().flatten(1).amax(1)
    missed = int((moved == 0).sum())
    faults = [f"{missed} of {4 * NODES} nodes of a path do not hear of its first"] if missed else []
    return violations(faults, f"a change at one end of a path of {4 * NODES} nodes reaches the other")


LAWS = (
    every_node_gets_one_finite_row,
    order_of_nodes_does_not_matter,
    order_of_edges_does_not_matter,
    isolated_nodes_stay_alone,
    graphs_side_by_side_do_not_mix,
    nan_in_another_graph_stays_there,
    messages_follow_the_edges,
    a_change_reaches_the_whole_component,
    same_input_same_output,
    gradient_is_the_slope,
)


def check_graph(module: nn.Module, batch: Any) -> list[Outcome]:
    """The outcomes of the laws of graph layers in any module that is called with features and edges."""
    if not isinstance(batch, GraphBatch):
        raise UsageError("a graph layer is checked on a graph: GraphBatch(x, y, mask, graph)")
    try:
        tried, x, edges, _ = _precise(module, batch)
        with torch.no_grad():
            tried(x, edges)
    except TypeError as error:  # what is not a graph layer breaks every law in the same way
        name = type(module).__name__
        raise UsageError(f"{name} cannot be called as a graph layer f(x, edge_index): {error}") from error
    return outcomes(LAWS, module, batch)


def invented_graph(module: nn.Module) -> GraphBatch:
    """A random graph for a layer, the number of its features read off the module."""
    named = [getattr(part, name, None) for part in module.modules() for name in FEATURES]
    features = next((size for size in named if isinstance(size, int)), None)
    if features is None:
        raise UsageError(
            f"the number of features of {type(module).__name__} is not given by {' or '.join(FEATURES)}; "
            "give the class an example() that returns (module, GraphBatch(x, y, mask, graph))"
        )
    random = seeded(0)
    half = torch.randint(NODES, (2, 2 * NODES), generator=random)
    half = half[:, half[0] < half[1]].unique(dim=1)
    x = torch.randn(NODES, features, generator=random)
    y, mask = torch.arange(NODES) % 2, torch.ones(NODES, dtype=torch.bool)
    return GraphBatch(x=x, y=y, mask=mask, graph=Graph(torch.cat([half, half.flip(0)], 1), NODES))


class _Fed(nn.Module):
    """A module with its input features as one more parameter."""

    def __init__(self, module: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.module = module
        self.x = nn.Parameter(x)


def _precise(module: nn.Module, batch: GraphBatch) -> tuple[nn.Module, Tensor, Tensor, float]:
    """The module with perturbed parameters in eval mode, features and edges, and the bound that fits their precision.

    That is double precision, or single for a module that casts to single precision.
    """
    module = stirred(module).eval()
    x, edges = batch.x.to_dense(), batch.graph.edge_index
    double = copy.deepcopy(module).double()
    try:
        with torch.no_grad():
            if double(x.double(), edges).dtype == torch.float64:
                return double, x.double(), edges, TIGHT
    except RuntimeError:  # which torch raises where precisions meet
        pass
    return module.float(), x.float(), edges, LOOSE


def _another(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """A second graph, unlike the first: other features, and only the edges among two thirds of the nodes."""
    count = max(1, 2 * len(x) // 3)
    links = edges[:, (edges < count).all(0)]
    return torch.randn(count, x.shape[1], generator=seeded(2), dtype=x.dtype), links
