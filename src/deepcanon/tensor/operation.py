"""Operations with their derivatives, and the recording of their use as a graph.

An :class:`Operation` is one row of the table: a forward expression and, for each argument, the vector-Jacobian
product as an expression of the delta ``g`` of the result, the result ``y`` and the arguments. The expressions are
plain NumPy. A tensor speaks NumPy's protocols, so the same expression runs on arrays (an ordinary backward pass, in
which nothing is recorded) and on tensors (recorded, so that it can be differentiated again).

A recorded result points at a :class:`Node`, nodes point at the nodes of the arguments, and nothing points back: the
graph has no cycles, and dropping the last result frees it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

from deepcanon.tensor.errors import AxisError, ShapeError, TensorError

Value = Any
"""An array or a tensor: the expressions of the table take both."""

Rule = Callable[..., Any]

_ndarray = np.ndarray
_new = object.__new__
_next_id = count().__next__


class Recording(threading.local):
    """The recording state of a thread: whether its operations are recorded."""

    on = True


recording = Recording()


@contextmanager
def no_grad() -> Iterator[None]:
    """Compute without recording.

    >>> from deepcanon.tensor import tensor
    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> with no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """
    with recording_is(False):
        yield


@contextmanager
def recording_is(on: bool) -> Iterator[None]:
    before = recording.on
    recording.on = on
    try:
        yield
    finally:
        recording.on = before


class Node:
    """A value in the graph: the operation that made it, the nodes of its arguments, and their values.

    ``parents`` has one entry per argument: a node, or ``None`` for a plain number or array. ``args`` are the values
    that the operation saw, ``options`` what is never differentiated (axes, shapes, indices). A leaf has ``op = None``
    and no parents. ``id`` grows with time, so a node's parents always have smaller ones. ``needs`` says whether a
    derivative with respect to it can be asked for.
    """

    __slots__ = ("__weakref__", "args", "id", "needs", "op", "options", "parents", "value")

    op: Operation | None
    parents: tuple[Node | None, ...]
    args: tuple[Any, ...]
    options: dict[str, Any]
    value: np.ndarray[Any, Any]
    id: int
    needs: bool

    @classmethod
    def leaf(cls, value: np.ndarray[Any, Any], needs: bool) -> Node:
        """A value that no recorded operation made."""
        node: Node = _new(cls)
        node.op, node.parents, node.args, node.options = None, (), (), {}
        node.value, node.needs, node.id = value, needs, _next_id()
        return node

    def __repr__(self) -> str:
        return f"Node({self.op.name if self.op else 'leaf'}:{self.id}, {self.value.dtype} {self.value.shape})"


class Operand:
    """An operand: an array, with its node if it is in a graph. :class:`Tensor` is the only kind."""

    __slots__ = ("_storage", "array", "node")

    array: np.ndarray[Any, Any]
    node: Node | None
    _storage: Any

    @property
    def storage(self) -> Any:
        raise NotImplementedError


_NO_OPTIONS: dict[str, Any] = {}


class Operation:
    """An operation, one row of the table.

    Arguments:
        name: What errors and drawings call it.
        forward: The value, as a function of arrays.
        vjps: For each argument the delta that flows back to it, ``vjp(g, y, *args, **options)``; ``None`` where none
            does. A delta may have the shape of the result: what broadcasting repeated is summed in one place, by the
            backward pass.
        joint: In place of ``vjps``, one rule that returns the deltas of all arguments.
        view: Whether the result shares the memory of its first argument.
        reads: Whether the rules use values (and not only at shapes): then these may not be overwritten.
        hint: What must hold of the arguments, for error messages.
    """

    __slots__ = ("differentiable", "forward", "hint", "joint", "name", "reads", "simple", "view", "vjps")

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        *vjps: Rule | None,
        joint: Rule | None = None,
        view: bool = False,
        reads: bool = True,
        hint: str = "",
    ) -> None:
        self.name, self.forward, self.vjps, self.joint = name, forward, vjps, joint
        self.view, self.reads, self.hint = view, reads, hint
        self.differentiable = bool(vjps) or joint is not None
        self.simple = self.differentiable and not view
        speaks(forward, self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Apply it: arrays give an array, and as soon as one argument is a tensor the result is one."""
        if not options and self.simple:
            if len(args) == 1:
                return unary(self, args[0]) if isinstance(args[0], Operand) else self.forward(*args)
            if len(args) == 2 and (isinstance(args[0], Operand) or isinstance(args[1], Operand)):
                return binary(self, *args)
        for a in args:
            if isinstance(a, Operand):
                return apply(self, args, options)
        return self.forward(*args, **options)

    def __repr__(self) -> str:
        return f"<operation {self.name}>"

    def complain(self, args: Sequence[Any], error: Exception) -> Exception:
        """The error of NumPy, in terms of this operation."""
        shapes = " and ".join(str(np.shape(a)) for a in args)
        text = f"{self.name} does not fit shapes {shapes}: {self.hint or error}"
        if isinstance(error, np.linalg.LinAlgError):
            return np.linalg.LinAlgError(f"{self.name} of shape {shapes}: {error}")
        if isinstance(error, IndexError):
            return AxisError(f"{self.name} does not fit shape {shapes}: {error}")
        return TypeError(f"{self.name}: {error}") if isinstance(error, TypeError) else ShapeError(text)


NUMPY: dict[Any, Callable[..., Any]] = {}
"""The operation, or function of ours, that implements a function of NumPy."""


def speaks(function: Any, ours: Callable[..., Any]) -> None:
    """Let an operation or function of ours implement a function of NumPy for tensors."""
    if isinstance(function, np.ufunc) or getattr(function, "__module__", "").startswith("numpy"):
        NUMPY[function] = ours


_ERRORS = (ValueError, TypeError, IndexError, np.linalg.LinAlgError)


def unary(op: Operation, a: Any) -> Any:
    """Apply an operation with one argument and no options: as :func:`apply`, written out since it is used most."""
    x = a.array
    try:
        value = op.forward(x)
    except TensorError:
        raise
    except _ERRORS as error:
        raise op.complain((x,), error) from error
    if type(value) is not _ndarray:
        value = np.asarray(value)
    out = _new(type(a))
    out.array = value
    out._storage = None
    parent = a.node
    if parent is not None and parent.needs and recording.on:
        node = out.node = _new(Node)
        node.op = op
        node.parents = (parent,)
        node.args = (x,)
        node.options = _NO_OPTIONS
        node.value = value
        node.needs = True
        node.id = _next_id()
    else:
        out.node = None
    return out


def binary(op: Operation, a: Any, b: Any) -> Any:
    """Apply an operation with two arguments and no options: as :func:`apply`, written out since it is used most."""
    if isinstance(a, Operand):
        x, parent, kind = a.array, a.node, type(a)
    else:
        x, parent, kind = a, None, type(b)
    if isinstance(b, Operand):
        y, other = b.array, b.node
    else:
        y, other = b, None
    try:
        value = op.forward(x, y)
    except TensorError:
        raise
    except _ERRORS as error:
        raise op.complain((x, y), error) from error
    if type(value) is not _ndarray:
        value = np.asarray(value)
    out = _new(kind)
    out.array = value
    out._storage = None
    if ((parent is not None and parent.needs) or (other is not None and other.needs)) and recording.on:
        if parent is None and x is not a:
            parent = node_of(a)
        if other is None and y is not b:
            other = node_of(b)
        node = out.node = _new(Node)
        node.op = op
        node.parents = (parent, other)
        node.args = (x, y)
        node.options = _NO_OPTIONS
        node.value = value
        node.needs = True
        node.id = _next_id()
    else:
        out.node = None
    return out


def apply(op: Operation, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """Apply an operation to arguments among which is a tensor; record it if a derivative may be asked for."""
    values: list[Any] = []
    needs, first = False, None
    for a in args:
        if isinstance(a, Operand):
            values.append(a.array)
            if first is None:
                first = a
            needs = needs or (a.node is not None and a.node.needs)
        else:
            values.append(a)
    try:
        value = op.forward(*values, **options)
    except TensorError:
        raise
    except _ERRORS as error:
        raise op.complain(values, error) from error
    if type(value) is not _ndarray:
        value = np.asarray(value)
    out: Any = _new(type(first))
    out.array = value
    out.node = None
    out._storage = None
    if needs and op.differentiable and recording.on and value.dtype.kind == "f":
        node = out.node = _new(Node)
        node.op = op
        node.parents = tuple([node_of(a) if isinstance(a, Operand) else None for a in args])
        node.args = tuple(values)
        node.options = options
        node.value = value
        node.needs = True
        node.id = _next_id()
    if op.view and isinstance(first, Operand):
        source, base = first.array, value.base
        if value is source or (base is not None and (base is source or base is source.base)):
            out._storage = first.storage
            if out.node is not None:
                out._storage.watch(out.node)
    return out


def node_of(a: Operand) -> Node:
    """The node of an operand; a constant gets one when it first enters a graph, so that writes to it are noticed."""
    if a.node is None:
        a.node = Node.leaf(a.array, needs=False)
        if a._storage is not None:
            a._storage.watch(a.node)
    return a.node
