"""Automatic differentiation: the backward pass (reverse mode), and gradients, Jacobians and Hessians made of it.

The backward pass starts with the delta of the result and always goes on with the pending node that was made last.
Everything that was computed from that node was made later, so its delta is complete: no node is visited twice, in
whatever way the graph branches, and nothing recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from deepcanon.tensor.errors import GradientError, ShapeError
from deepcanon.tensor.movement import reshape, stack
from deepcanon.tensor.operation import Node, Operand, Operation, Value, no_grad, recording, recording_is
from deepcanon.tensor.tensor import Tensor, plain, wrap

Function = Callable[..., Any]

alias = Operation("alias", lambda x: x[...], lambda g, y, x: g, view=True, reads=False)
"""The same value under another name: what a derivative is taken by, apart from other uses of the same tensor."""


class Edge(NamedTuple):
    """One use of a value, with the delta (gradient) that flowed back along it."""

    node: Node
    argument: int
    parent: Node
    delta: Value

    def __repr__(self) -> str:
        return f"Edge(argument {self.argument} of {self.node} <- {self.parent})"


def backward(
    outputs: Sequence[tuple[Node, Value]],
    wanted: set[int],
    *,
    record: bool,
    keep: bool,
    edges: list[Edge] | None = None,
) -> dict[int, Value]:
    """Deltas of the nodes with the wanted ids, given those of the outputs.

    ``record`` runs the rules on tensors, so that the deltas can be differentiated; otherwise they run on arrays.
    ``keep`` leaves the graph as it is; otherwise each node lets go of its arguments as soon as it is done. ``edges``
    collects the delta of every edge.
    """
    pending: dict[int, Node] = {}
    deltas: dict[int, Value] = {}
    heap: list[int] = []
    for node, delta in outputs:
        key = -node.id  # the heap gives the smallest first
        deltas[key] = deltas[key] + delta if key in deltas else delta
        if key not in pending:
            pending[key] = node
            heappush(heap, key)
    last = -min(wanted, default=0)
    found: dict[int, Value] = {}
    while heap:
        key = heappop(heap)
        if key > last:
            break  # what remains was made before everything that is wanted
        node, g = pending.pop(key), deltas.pop(key)
        if -key in wanted:
            found[-key] = g
        op = node.op
        if op is None:
            continue
        parents = node.parents
        if not parents:
            raise GradientError(
                f"the graph of this value (made by {op.name}) was used up by an earlier derivative; "
                "ask for that one with gradients(..., keep=True)"
            )
        y, args = (_as_tensor(node), _as_tensors(node)) if record else (node.value, node.args)
        if op.joint is None:
            rules: Sequence[Any] = op.vjps
        else:
            rules = op.joint(g, y, *args, **node.options)
        argument = -1
        for parent, rule in zip(parents, rules, strict=False):
            argument += 1
            if parent is None or not parent.needs or rule is None:
                continue
            d: Any = rule(g, y, *args, **node.options) if op.joint is None else rule
            if d is None:
                continue
            value = parent.value
            if d.shape != value.shape:
                d = unbroadcast(d, value.shape)
            if d.dtype is not value.dtype:
                d = d.astype(value.dtype)
            if record and not isinstance(d, Tensor):
                raise GradientError(
                    f"{op.name} has no second derivative: its rule for argument {argument} gave an array, so it is not "
                    "recorded; write the rule with operations on tensors"
                )
            if edges is not None:
                edges.append(Edge(node, argument, parent, d))
            key = -parent.id
            if key in deltas:
                deltas[key] = deltas[key] + d
            else:
                deltas[key] = d
                pending[key] = parent
                heappush(heap, key)
        if not keep:
            node.parents = node.args = ()
    return found


def unbroadcast(d: Value, shape: tuple[int, ...]) -> Value:
    """A delta summed over what broadcasting repeated, so that it has the shape of the value it belongs to."""
    new = d.ndim - len(shape)
    grown = (i + new for i, size in enumerate(shape) if size == 1 and i + new >= 0 and d.shape[i + new] != 1)
    axes = (*range(new), *grown)
    return reshape(d.sum(axis=axes, keepdims=True) if axes else d, shape=shape)


def _as_tensor(node: Node) -> Tensor:
    out = wrap(node.value)
    out.node = node
    return out


def _as_tensors(node: Node) -> list[Value]:
    return [arg if p is None else _as_tensor(p) for arg, p in zip(node.args, node.parents, strict=True)]


def gradients(
    output: Any, inputs: Sequence[Tensor], delta: Any = None, *, record: bool = False, keep: bool = False
) -> list[Tensor]:
    """The derivative of a scalar by each of several tensors; with ``delta``, the vector-Jacobian product of any output.

    >>> from deepcanon.tensor import tensor
    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> gradients((x * x).sum(), [x])
    [tensor([2., 4.])]

    Arguments:
        output: What is differentiated.
        inputs: What it is differentiated by; one that it does not depend on gets zeros.
        delta: The delta of the output, of its shape; 1 for a scalar.
        record: Record the backward pass, so that the result can be differentiated again.
        keep: Keep the graph for another derivative; a recorded pass keeps it anyhow.
    """
    return _gradients([output], inputs, [delta], record=record, keep=keep or record)


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], deltas: Sequence[Any], *, record: bool, keep: bool
) -> list[Tensor]:
    if isinstance(inputs, Tensor):  # its rows would count as inputs, on which nothing depends
        raise GradientError("derivatives are asked for by a list of tensors (got one tensor); write [x]")
    starts = []
    for output, delta in zip(outputs, deltas, strict=True):
        start = first_delta(output, delta)
        if output.node is not None and output.node.needs:
            starts.append((output.node, start if record else start.array))
    for x in inputs:
        if not x.requires_grad or x.node is None:
            raise GradientError(
                "a derivative is asked for by a tensor that is not recorded; make it with requires_grad=True"
            )
    ids = [x.node.id for x in inputs if x.node is not None]
    with recording_is(record):
        found = backward(starts, set(ids), record=record, keep=keep)
    results: list[Tensor] = []
    for x, number in zip(inputs, ids, strict=True):
        d = found.get(number)
        if d is None:
            d = np.zeros_like(x.array)
        if not isinstance(d, Tensor):
            shared = d.base is not None or any(d is other for other in (*map(plain, deltas), *map(plain, results)))
            d = wrap(d.copy() if shared else d)  # so that writing to one result changes no other
        results.append(d)
    return results


def first_delta(output: Any, delta: Tensor | Any) -> Tensor:
    if not isinstance(output, Tensor):
        raise GradientError(f"a derivative is taken of a tensor (got {type(output).__name__})")
    if delta is None:
        if output.size != 1:
            raise ShapeError(
                f"a gradient is that of a scalar (got shape {output.shape}); reduce it, give its delta or use jacobian"
            )
        return wrap(np.ones(output.shape, output.dtype))
    if not isinstance(delta, Tensor):
        delta = wrap(np.asarray(delta, output.dtype))
    if delta.shape != output.shape:
        raise ShapeError(f"the delta of an output has its shape, {output.shape} (got {delta.shape})")
    return delta


def depends_on_others(output: Node, own: set[int]) -> bool:
    """Whether a derivative of the output by anything but its own nodes could be asked for."""
    stack, seen, first = [output], set(own), min(own, default=0)
    while stack:
        node = stack.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        if node.op is None or node.id < first:
            return True
        stack += [parent for parent in node.parents if parent is not None and parent.needs]
    return False


def _call(f: Function, args: Sequence[Any], argnums: tuple[int, ...]) -> tuple[Any, list[Tensor]]:
    """f with the chosen arguments as fresh tensors to differentiate by, apart from other uses of the same tensors."""
    given = list(args)
    inputs = []
    with recording_is(True):
        for number in argnums:
            x = given[number]
            if isinstance(x, Tensor) and x.requires_grad:
                given[number] = alias(x)
            else:
                array = np.asarray(plain(x))
                given[number] = wrap(array if array.dtype.kind == "f" else array.astype(float), requires_grad=True)
            inputs.append(given[number])
        output = f(*given)
    return output, inputs


def _must_record(output: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Whether a derivative may be differentiated further: its inputs were recorded before, or others take part."""
    if not recording.on or output.node is None or not output.node.needs:
        return False
    nodes = [x.node for x in inputs if x.node is not None]
    return any(node.op is not None for node in nodes) or depends_on_others(output.node, {node.id for node in nodes})


def vjp(f: Function, *args: Any) -> tuple[Any, Callable[[Any], list[Tensor]]]:
    """The vector-Jacobian product: the value of f, and the function that takes a delta of it back to the arguments."""
    output, inputs = _call(f, args, tuple(range(len(args))))
    record = _must_record(output, inputs)

    def pull(delta: Any) -> list[Tensor]:
        recorded = isinstance(delta, Tensor) and delta.requires_grad and recording.on
        return gradients(output, inputs, delta, record=record or recorded, keep=True)

    return (output if record else output.detach()), pull


def value_and_grad(f: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """The function that gives the scalar value of f and its derivative by the chosen arguments.

    >>> value, slope = value_and_grad(lambda x: x ** 3)(2.0)
    >>> value.item(), slope.item()
    (8.0, 12.0)
    """
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)

    def value_and_gradient(*args: Any) -> Any:
        output, inputs = _call(f, args, numbers)
        first_delta(output, None)
        record = _must_record(output, inputs)
        slopes = gradients(output, inputs, record=record)
        return (output if record else output.detach()), (slopes if isinstance(argnums, tuple) else slopes[0])

    return value_and_gradient


def grad(f: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """The derivative of a scalar function, as a function; it can be differentiated again.

    >>> grad(grad(lambda x: x ** 3))(2.0).item()
    12.0
    """
    both = value_and_grad(f, argnums)
    return lambda *args: both(*args)[1]


def jvp(f: Function, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Tensor]:
    """The Jacobian-vector product: the value of f and its derivative in a direction.

    The vector-Jacobian product is linear in its delta u; its own vector-Jacobian product by u is J v, with no second
    table.
    """
    output, inputs = _call(f, args, tuple(range(len(args))))
    record = _must_record(output, inputs)
    with recording_is(True):
        u = wrap(np.zeros_like(output.array), requires_grad=True)
        pulled = gradients(output, inputs, u, record=True)
    slope = _gradients(pulled, [u], tangents, record=record, keep=True)[0]
    return (output if record else output.detach()), slope


def hvp(f: Function, x: Any, v: Any) -> Tensor:
    """The Hessian-vector product of a scalar function, without the Hessian."""
    return grad(lambda z: (grad(f)(z) * v).sum())(x)  # type: ignore[no-any-return]


def jacobian(f: Function) -> Function:
    """The function that gives all derivatives of f: the axes of its value, then those of its argument."""

    def all_slopes(x: Any) -> Any:
        output, inputs = _call(f, (x,), (0,))
        record = _must_record(output, inputs)
        rows = []
        for place in np.ndindex(output.shape):
            delta = np.zeros(output.shape, output.dtype)
            delta[place] = 1
            rows += gradients(output, inputs, delta, record=record, keep=True)
        if not rows:
            return wrap(np.zeros(output.shape + inputs[0].shape, output.dtype))
        return stack(rows).reshape(output.shape + inputs[0].shape)

    return all_slopes


def hessian(f: Function) -> Function:
    """The function that gives the second derivatives of a scalar function."""
    return jacobian(grad(f))


def checkpoint(f: Function) -> Function:
    """Gradient checkpointing: the same function, whose intermediate values are not kept but computed again.

    Everything that is differentiated by must be an argument; a hidden tensor that requires a derivative is an error.
    """

    def forward(*arrays: Any) -> Any:
        with no_grad():
            return plain(f(*(wrap(a) for a in arrays)))

    def again(g: Value, y: Value, *args: Value) -> list[Value]:
        record = isinstance(g, Operand)
        real = tuple(i for i, a in enumerate(args) if np.asarray(plain(a)).dtype.kind == "f")
        output, inputs = _call(f, [a if isinstance(a, Operand) else wrap(a) for a in args], real)
        own = {x.node.id for x in inputs if x.node is not None}
        if output.node is not None and depends_on_others(output.node, own):
            raise GradientError(
                "checkpoint differentiates by arguments only, and this function uses other tensors; pass them"
            )
        slopes = dict(zip(real, gradients(output, inputs, g, record=record), strict=True))
        return [(slopes[i] if record else slopes[i].array) if i in slopes else None for i in range(len(args))]

    return Operation("checkpoint", forward, joint=again)
