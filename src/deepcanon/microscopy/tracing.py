"""The microscope for functions of :mod:`deepcanon.tensor`, our own tensors: the same compute graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepcanon.core import UsageError
from deepcanon.core.plural import counted
from deepcanon.microscopy.compute_graph import TIGHT, Check, ComputeGraph, compute_graph
from deepcanon.microscopy.tape import Place, Record, Tape
from deepcanon.microscopy.verdict import Array
from deepcanon.tensor import Tensor, no_grad, tensor
from deepcanon.tensor import trace as trace_tensor
from deepcanon.tensor.autodiff import unbroadcast
from deepcanon.tensor.operation import Node

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def trace(f: Callable[..., Tensor], *inputs: Any, title: str = "") -> ComputeGraph:
    """The compute graph of a function of tensors at these inputs: every value and every gradient of its result.

    The result must be one number. The inputs are arrays or tensors and are taken in double precision; tensors that the
    function holds itself are its parameters.

    >>> graph = trace(lambda x, w: (x * w).sum(), [1.0, 2.0], [3.0, 4.0])
    >>> [node.name for node in graph.nodes]
    ['x1', 'x2', 'multiply', 'sum']
    >>> graph.find("x2").delta
    array([1., 2.])
    """
    tensors = [tensor(np.array(getattr(x, "array", x), dtype=np.float64), requires_grad=True) for x in inputs]
    result = f(*tensors)
    if not isinstance(result, Tensor) or result.array.size != 1:
        got = f"one of shape {result.array.shape}" if isinstance(result, Tensor) else type(result).__name__
        raise UsageError(f"the function must give a tensor with one number, got {got}")
    if result.node is None or not result.node.needs:
        raise UsageError("the result does not depend on the inputs, so there is no delta to show")
    seen = trace_tensor(result)
    names = {t.node.id: f"x{i + 1}" if len(tensors) > 1 else "x" for i, t in enumerate(tensors) if t.node is not None}
    records: list[Record] = []
    places: dict[int, Place] = {}
    for node in seen.nodes:
        inputs_of = [_source(arg, parent, records, places) for arg, parent in zip(node.args, node.parents, strict=True)]
        records.append(_record(node, inputs_of, names))
        places[node.id] = (len(records) - 1, 0)
    graph = compute_graph(Tape(records, [], places[result.node.id]), title or getattr(f, "__name__", "function"))
    graph.checks.append(_against_trace(graph, {places[key]: np.asarray(delta) for key, delta in seen.deltas.items()}))
    return graph


@dataclass(eq=False)
class TensorOperation:
    """A recorded operation of the table with its arguments; ``slots`` are those that are values of the graph."""

    node: Node
    args: tuple[Any, ...]
    options: dict[str, Any]
    slots: list[int]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        assert self.node.op is not None
        with no_grad():
            return [np.array(self.node.op.forward(*self._filled(inputs), **self.options))]

    def pull(self, inputs: Sequence[Array], deltas: Sequence[Array | None]) -> list[Array | None]:
        operation, delta = self.node.op, deltas[0]
        assert operation is not None
        if delta is None:
            return [None] * len(inputs)
        args = self._filled(inputs)
        with no_grad():
            y = np.asarray(operation.forward(*args, **self.options))
            if operation.joint is None:
                rules = [
                    None if rule is None or i not in self.slots else rule(delta, y, *args, **self.options)
                    for i, rule in enumerate(operation.vjps)
                ]
            else:
                rules = list(operation.joint(delta, y, *args, **self.options))
            pulled: list[Array | None] = []
            for slot, value in zip(self.slots, inputs, strict=True):
                d = rules[slot] if slot < len(rules) else None
                if d is not None and d.shape != value.shape:
                    d = unbroadcast(d, value.shape)
                pulled.append(None if d is None else np.array(d, dtype=value.dtype))
        return pulled

    def _filled(self, inputs: Sequence[Array]) -> list[Any]:
        args = list(self.args)
        for slot, value in zip(self.slots, inputs, strict=True):
            args[slot] = value
        return args


def _source(arg: Any, parent: Node | None, records: list[Record], places: dict[int, Place]) -> Place | None:
    """The address of an argument; an array that no derivative reaches is a constant, a plain number has none."""
    if parent is not None and parent.id in places:
        return places[parent.id]
    if not isinstance(arg, np.ndarray) or not arg.ndim:
        return None
    records.append(Record("constant", "constant", [np.array(arg)]))
    return len(records) - 1, 0


def _record(node: Node, found: Sequence[Place | None], names: dict[int, str]) -> Record:
    if node.op is None:
        kind = "input" if node.id in names else "parameter"
        return Record(kind, names.get(node.id, kind), [np.array(node.value)])
    slots = [i for i, place in enumerate(found) if place is not None]
    letters = iter(LETTERS)
    words = [next(letters, "...") if i in slots else str(arg) for i, arg in enumerate(node.args)]
    words += [f"{name}={value}" for name, value in node.options.items()]
    parents = [node.parents[i] for i in slots]
    return Record(
        node.op.name,
        node.op.name,
        [np.array(node.value)],
        call=f"{node.op.name}({', '.join(words)})"[:120],
        inputs=[place for place in found if place is not None],
        flows=[parent is not None and parent.needs for parent in parents],
        cut=[False] * len(slots),
        operation=TensorOperation(node, node.args, node.options, slots),
    )


def _against_trace(graph: ComputeGraph, expected: dict[Place, Array]) -> Check:
    """Compare every node's delta with that of one backward pass of the engine."""
    worst = 0.0
    for (number, output), delta in expected.items():
        found = graph.nodes[number].deltas[output]
        size = max(float(np.abs(delta).max(initial=0.0)), 1e-300)
        gap = float(np.abs(delta - (0.0 if found is None else found)).max(initial=0.0)) / size
        worst = max(worst, gap)
    detail = f"{counted(len(expected), 'delta')}, each the sum over its edges, compared with those of one backward pass"
    return Check("deepcanon.tensor", worst <= TIGHT, worst, detail)
