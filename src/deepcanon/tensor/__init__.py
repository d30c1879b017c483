"""A tensor with automatic differentiation on NumPy alone.

Reading order: ``layout`` (where elements lie), ``storage`` and ``tensor`` (the object), ``operation`` (a row of the
table and how its use is recorded), ``elementwise`` ``movement`` ``reductions`` ``products`` ``networks`` (the table),
``autodiff``, ``trace``. Functions have the names and signatures of the Python array API standard where it has them.

How the graph is walked: a recorded tensor ``t`` has ``t.node``, a :class:`Node` with

- ``op``: the :class:`Operation` that made it (``op.name`` is its name), ``None`` for a leaf;
- ``parents``: one entry per argument, a node, or ``None`` where the argument was a plain number or array;
- ``args``: the values of the arguments, and ``options``: axes, shapes, indices;
- ``value``: its own value, an array; ``id``: a number that grows with time; ``needs``: whether a derivative reaches it.

``trace(t)`` gives all nodes of a scalar's graph, every edge ``(node, argument, parent, delta)``, and the delta of
each node by id.
"""

from deepcanon.tensor import standard
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
from deepcanon.tensor.check import (
    check_gradients,
)
from deepcanon.tensor.creation import (
    gaussian,
    uniform,
)
from deepcanon.tensor.elementwise import (
    erf,
    relu,
    sigmoid,
    softplus,
)
from deepcanon.tensor.errors import (
    GradientError,
    ShapeError,
    TensorError,
)
from deepcanon.tensor.movement import (
    pad,
    set_at,
    split,
    take_along_axis,
)
from deepcanon.tensor.networks import (
    accuracy,
    avg_pool2d,
    binary_cross_entropy,
    conv1d,
    conv2d,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    max_pool2d,
    mean_squared_error,
    silu,
    softmax,
)
from deepcanon.tensor.operation import (
    Node,
    Operation,
    no_grad,
)
from deepcanon.tensor.products import (
    einsum,
)
from deepcanon.tensor.reductions import (
    logsumexp,
    norm,
)
from deepcanon.tensor.standard import *  # noqa: F403
from deepcanon.tensor.tensor import (
    Tensor,
    tensor,
)
from deepcanon.tensor.trace import (
    Trace,
    trace,
)

__all__ = [
    "Edge",
    "GradientError",
    "Node",
    "Operation",
    "ShapeError",
    "Tensor",
    "TensorError",
    "Trace",
    "accuracy",
    "avg_pool2d",
    "binary_cross_entropy",
    "check_gradients",
    "checkpoint",
    "conv1d",
    "conv2d",
    "cross_entropy",
    "dropout",
    "einsum",
    "embedding",
    "erf",
    "gaussian",
    "gelu",
    "grad",
    "gradients",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsumexp",
    "max_pool2d",
    "mean_squared_error",
    "no_grad",
    "norm",
    "pad",
    "relu",
    "set_at",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "split",
    "take_along_axis",
    "tensor",
    "trace",
    "uniform",
    "value_and_grad",
    "vjp",
]
__all__ += standard.__all__


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
