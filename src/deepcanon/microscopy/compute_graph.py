"""The compute graph of a loss, with a value and a gradient (delta) on every edge, and a verdict on every delta."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepcanon.core import UsageError
from deepcanon.core.display import Shown, framed, notebook, table
from deepcanon.core.files import with_folder, writable
from deepcanon.core.plural import counted
from deepcanon.microscopy.tape import Group, Place, Record, Tape
from deepcanon.microscopy.verdict import Array, Verdict, coarseness, inner, judge, moved, typical

OUTSIDE = ("input", "parameter", "buffer", "constant")
"""The kinds of nodes that no operation made."""
TIGHT = 1e-8
"""The largest relative difference of two sums of the same numbers."""


@dataclass(frozen=True, eq=False)
class Node(Shown):
    """An operation with its outputs, or a value from outside; ``deltas`` are the gradients of the loss in them."""

    id: int
    op: str
    name: str
    group: int | None
    where: str
    values: tuple[Array, ...]
    deltas: tuple[Array | None, ...]

    @property
    def value(self) -> Array:
        """The first output, which is the only one of most operations."""
        return self.values[0]

    @property
    def delta(self) -> Array:
        """The gradient of the loss in the first output."""
        if self.deltas[0] is None:
            raise UsageError(f"no gradient comes back to {self.name}, so it has no delta")
        return self.deltas[0]


@dataclass(frozen=True, eq=False)
class Edge(Shown):
    """An edge: a value that goes from the node that made it (``source``, its ``output``) into the ``slot`` of another.

    ``delta`` is the contribution of this edge to the gradient of the loss in the value: over all edges that leave an
    output, the deltas add up to the output's. None where no gradient comes back.
    """

    id: int
    source: int
    output: int
    target: int
    slot: int
    value: Array
    delta: Array | None
    verdict: Verdict


@dataclass(frozen=True)
class Check:
    """A check of the whole graph: what was compared, the relative difference, and whether it is small enough."""

    name: str
    holds: bool
    gap: float
    detail: str


@dataclass(eq=False)
class ComputeGraph(Shown):
    """The compute graph that the microscope has recorded: nodes and edges in the order of the forward pass."""

    title: str
    nodes: list[Node]
    edges: list[Edge]
    groups: list[Group]
    tape: Tape = field(repr=False)
    checks: list[Check] = field(default_factory=list)

    def _facts(self) -> dict[str, Any]:
        counts = {"nodes": len(self.nodes), "edges": len(self.edges), "mismatches": len(self.mismatches)}
        return {"title": self.title, **counts, "loss": self.loss}

    def _repr_html_(self) -> str:
        from deepcanon.microscopy.page import as_page

        checks = [[check.name, "holds" if check.holds else "FAILS", check.gap, check.detail] for check in self.checks]
        head = ["check", "", "gap", "what was compared"]
        found = table([], self._facts().items()), table(head, checks) if checks else ""
        return notebook("ComputeGraph", *found, framed(as_page(self), self.title))

    @property
    def loss(self) -> float:
        return float(np.real(self.tape.value(self.tape.loss)))

    @property
    def mismatches(self) -> list[Edge]:
        """The edges whose delta is not the derivative."""
        return [edge for edge in self.edges if edge.verdict.status == "mismatch"]

    def edge(self, number: int) -> Edge:
        if not 0 <= number < len(self.edges):
            raise UsageError(f"there are the edges 0 to {len(self.edges) - 1}; got {number}")
        return self.edges[number]

    def into(self, node: Node) -> list[Edge]:
        return [edge for edge in self.edges if edge.target == node.id]

    def out_of(self, node: Node, output: int = 0) -> list[Edge]:
        return [edge for edge in self.edges if (edge.source, edge.output) == (node.id, output)]

    def find(self, name: str) -> Node:
        """The first node of this name: a parameter's, an input's, an operation's."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = sorted({node.name for node in self.nodes})
        raise UsageError(f"there is no node {name!r}; there are {', '.join(names[:20])}{' ...' * (len(names) > 20)}")

    def jacobian(self, edge: Edge | int, output: int = 0) -> Array:
        """The derivative of the target's output by the value on the edge: the output's axes first, then the value's."""
        edge = self.edge(edge) if isinstance(edge, int) else edge
        record = self.tape.records[edge.target]
        if edge.delta is None or record.operation is None:
            raise UsageError(f"no gradient comes back along edge {edge.id}, so it has no Jacobian")
        inputs = self.tape.inputs(record)
        end = record.values[output]
        rows = []
        for entry in range(end.size):
            seed = np.zeros(end.shape, end.dtype)
            seed.reshape(-1)[entry] = 1
            deltas = [seed if k == output else None for k in range(len(record.values))]
            row = record.operation.pull(inputs, deltas)[edge.slot]
            rows.append(np.zeros_like(edge.value) if row is None else row)
        return np.array(rows).reshape(end.shape + edge.value.shape)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the graph as a page for a browser (``.html``) or as numbers for a program (``.json``)."""
        from deepcanon.microscopy.page import write

        return write(self, with_folder(writable(Path(path), overwrite, ".html", ".json")))

    def __str__(self) -> str:
        from deepcanon.microscopy.summary import as_text

        return as_text(self)


def compute_graph(tape: Tape, title: str) -> ComputeGraph:
    """The compute graph of a tape: backpropagate from its loss, operation by operation, and check every delta."""
    deltas: dict[Place, Array] = {tape.loss: np.ones_like(tape.value(tape.loss))}
    found: list[tuple[int, int, Array | None, Verdict]] = []
    for number in range(len(tape.records) - 1, -1, -1):
        record = tape.records[number]
        for slot, (delta, verdict) in reversed(list(enumerate(_back(tape, number, deltas)))):
            if delta is not None:
                place = record.inputs[slot]
                deltas[place] = np.asarray(deltas[place] + delta) if place in deltas else delta
            found.append((number, slot, delta, verdict))
    edges: list[Edge] = []
    for target, slot, delta, verdict in reversed(found):
        source, output = tape.records[target].inputs[slot]
        value = tape.value((source, output))
        edges.append(Edge(len(edges), source, output, target, slot, value, delta, verdict))
    nodes = [
        Node(
            number, record.op, record.name, record.group, record.where, tuple(record.values),
            tuple(deltas.get((number, output)) for output in range(len(record.values))),
        )
        for number, record in enumerate(tape.records)
    ]  # fmt: skip
    graph = ComputeGraph(title, nodes, edges, tape.groups, tape)
    graph.checks.append(_local(graph))
    graph.checks.append(_whole(graph))
    return graph


def _back(tape: Tape, number: int, deltas: dict[Place, Array]) -> Iterator[tuple[Array | None, Verdict]]:
    """The delta and the verdict for each input of an operation."""
    record = tape.records[number]
    coming = [deltas.get((number, output)) for output in range(len(record.values))]
    if record.operation is None or all(delta is None for delta in coming):
        for cut in record.cut:
            yield None, Verdict("cut", "no gradient comes back through this operation") if cut else Verdict("constant")
        return
    inputs = tape.inputs(record)
    repeats = _repeats(record, inputs)
    pulled = record.operation.pull(inputs, coming)
    for slot, flows in enumerate(record.flows):
        delta = pulled[slot]
        if not flows or delta is None:
            yield None, Verdict("constant")
        elif not repeats:
            yield delta, Verdict("unchecked", "run again alone, the operation gave another value")
        else:
            yield delta, _judged(record, inputs, slot, coming, delta)


def _repeats(record: Record, inputs: Sequence[Array]) -> bool:
    """Whether the operation, run again alone, gives the same outputs."""
    assert record.operation is not None
    again = record.operation.run(inputs)
    return all(
        np.allclose(a, b, rtol=1e-6, atol=1e-12, equal_nan=True) for a, b in zip(again, record.values, strict=True)
    )


def _judged(
    record: Record, inputs: Sequence[Array], slot: int, coming: Sequence[Array | None], delta: Array
) -> Verdict:
    """Compare one delta with finite differences of its operation alone, weighted by the incoming deltas."""
    operation = record.operation
    assert operation is not None

    def height(x: Array) -> float:
        outputs = operation.run([x if i == slot else value for i, value in enumerate(inputs)])
        return sum(inner(seed, y) for seed, y in zip(coming, outputs, strict=True) if seed is not None)

    seeded = [(seed, y) for seed, y in zip(coming, record.values, strict=True) if seed is not None]
    if not all(np.isfinite(part).all() for pair in seeded for part in pair) or not np.isfinite(delta).all():
        return Verdict("unchecked", "there is a number here that is not finite")
    size = sum(float(np.abs(seed * y).sum()) for seed, y in seeded)
    precision = max(_precision(array) for array in (inputs[slot], *(y for _, y in seeded)))
    return judge(height, inputs[slot], delta, size, precision)


def _precision(array: Array) -> float:
    """The machine epsilon of the array's type."""
    return float(np.finfo(array.dtype).eps) if array.dtype.kind in "fc" else 0.0


def _local(graph: ComputeGraph) -> Check:
    checked = [edge for edge in graph.edges if edge.verdict.status in ("agrees", "kink", "mismatch")]
    mismatches = graph.mismatches
    worst = max((edge.verdict.gap for edge in mismatches), default=0.0)
    if mismatches:
        names = ", ".join(dict.fromkeys(graph.nodes[edge.target].name for edge in mismatches))
        detail = (
            f"{len(mismatches)} of {counted(len(checked), 'delta')} are not the derivative of their operation: {names}"
        )
    else:
        detail = f"{counted(len(checked), 'delta')} are each the derivative of their operation, by finite differences"
    return Check("each operation", not mismatches, worst, detail)


def _whole(graph: ComputeGraph) -> Check:
    """Compare the slope of the loss along a random direction of all inputs and parameters with their deltas."""
    tape = graph.tape
    leaves = {(node.id, 0): node.deltas[0] for node in graph.nodes if node.op in OUTSIDE and node.deltas[0] is not None}
    if not leaves:
        return Check("the whole", True, 0.0, "nothing from outside gets a gradient")
    random = np.random.default_rng(0)
    lines = {}
    for place in leaves:
        value = tape.value(place)
        lines[place] = np.asarray(random.standard_normal(value.shape) * (typical(value) or 1.0))
    given = sum(inner(delta, lines[place]) for place, delta in leaves.items())
    precision = max(_precision(tape.value(place)) for place in (*leaves, tape.loss))
    coarse = coarseness(precision)
    slopes = [_slope(tape, lines, step * coarse) for step in (1e-6, 1e-5, 1e-7, 1e-4)]
    measured = min(slopes, key=lambda slope: abs(slope - given))
    spread = np.sqrt(sum(inner(delta, lines[place]) ** 2 for place, delta in leaves.items()))
    gap = abs(measured - given) / max(abs(measured), abs(given), 1e-3 * spread, 1e-12 * (1 + abs(graph.loss)))
    detail = (
        f"along a random direction of all {len(leaves)} inputs and parameters the loss has the slope "
        f"{measured:.6g}; "
        f"by their deltas it is {given:.6g}"
    )
    holds = bool(gap <= 1e-5 * coarse)
    corners = sum(edge.verdict.status == "kink" for edge in graph.edges)
    if not holds and corners:  # then the loss has no slope here, and each edge has been checked alone
        return Check(
            "the whole", True, float(gap), f"{detail}; {counted(corners, 'edge')} are at a corner, so both may be right"
        )
    return Check("the whole", holds, float(gap), detail)


def _slope(tape: Tape, lines: dict[Place, Array], step: float) -> float:
    ends = [
        tape.height({place: moved(tape.value(place), side * step, line) for place, line in lines.items()})
        for side in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * step)
