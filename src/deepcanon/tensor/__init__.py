"""A tensor with automatic differentiation on NumPy alone.

Reading order: ``layout`` (where elements lie), ``storage`` and ``tensor`` (the object), ``operation`` (a row of the
table and how its use is recorded), ``elementwise`` ``movement`` ``reductions`` ``linear`` (the table), ``autodiff``,
``trace``.

How the graph is walked: a recorded tensor ``t`` has ``t.node``, a :class:`Node` with

- ``op``: the :class:`Operation` that made it (``op.name`` is its name), ``None`` for a leaf;
- ``parents``: one entry per argument, a node, or ``None`` where the argument was a plain number or array;
- ``args``: the values of the arguments, and ``options``: axes, shapes, indices;
- ``value``: its own value, an array; ``id``: a number that grows with time; ``needs``: whether a derivative reaches it.

``trace(t)`` gives all nodes of a scalar's graph, every edge ``(node, argument, parent, delta)``, and the delta of
each node by id.
"""

from deepcanon.tensor.autodiff import (
    Edge,
    checkpoint,
    grad,
    gradients,
    hessian,
    hvp,
    jacobian,
    jvp,
    value_and_grad,
    vjp,
)
from deepcanon.tensor.operation import Node, Operation, no_grad
from deepcanon.tensor.tensor import Tensor, tensor
from deepcanon.tensor.trace import Trace, trace

__all__ = [
    "Edge",
    "Node",
    "Operation",
    "Tensor",
    "Trace",
    "checkpoint",
    "grad",
    "gradients",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "no_grad",
    "tensor",
    "trace",
    "value_and_grad",
    "vjp",
]
