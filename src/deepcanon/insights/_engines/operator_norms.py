"""Lipschitz constants of single operations: operator norms of linear maps and the constants of activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_unflatten

from deepcanon.insights._engines.spectrum import lanczos
from deepcanon.microscopy.replay import TorchOperation
from deepcanon.microscopy.tape import Record
from deepcanon.microscopy.verdict import Array

STEPS = 60
"""The number of products with an operator for its norm."""

KEEPING = {
    "view", "reshape", "flatten", "unflatten", "transpose", "permute", "squeeze", "unsqueeze", "T", "mT", "contiguous",
    "clone", "to", "double", "float", "movedim", "swapaxes", "identity", "dropout", "feature_dropout", "alpha_dropout",
    "flip", "roll", "view_as", "reshape_as", "type_as", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
}  # fmt: skip
"""Operations that move numbers and change none, and dropout in evaluation mode."""

LINEAR = {
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "mean", "sum",
    "matmul", "rmatmul", "mm", "bmm", "addmm", "einsum", "mul", "rmul", "multiply", "div", "truediv", "divide", "add",
    "radd", "iadd", "imul", "isub", "sub", "rsub", "subtract", "neg", "batch_norm", "getitem", "narrow", "select",
    "index_select", "expand", "repeat", "pad", "constant_pad_nd", "upsample_nearest2d", "upsample_bilinear2d",
    "cumsum", "tril", "triu", "unbind", "split", "chunk", "split_with_sizes", "masked_fill", "lerp",
}  # fmt: skip
"""Operations that are affine in the input, as long as the other factors are constants."""

PRODUCTS = {
    "linear", "matmul", "rmatmul", "mm", "bmm", "addmm", "einsum", "mul", "rmul", "imul", "multiply", "div", "truediv",
    "divide", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "batch_norm",
    "lerp",
}  # fmt: skip
"""Those of them that are not linear where two of their arguments depend on the input."""

SIDE_BY_SIDE = {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "maximum", "minimum"}
"""Operations that keep one copy of each number: the squares of the differences add up."""

ACTIVATIONS: dict[str, float] = {
    "relu": 1.0, "relu6": 1.0, "hardtanh": 1.0, "tanh": 1.0, "softplus": 1.0, "log_sigmoid": 1.0,
    "abs": 1.0, "atan": 1.0, "arctan": 1.0, "sin": 1.0, "cos": 1.0, "clamp": 1.0, "clamp_min": 1.0, "clamp_max": 1.0,
    "celu": 1.0, "softshrink": 1.0, "amax": 1.0, "amin": 1.0, "sigmoid": 0.25, "softmax": 0.5,
    "hardsigmoid": 1 / 6, "hardswish": 1.5, "silu": 1.0998394, "gelu": 1.1289931, "mish": 1.0884984,
    "selu": 1.7580994, "erf": 2 / math.sqrt(math.pi),
}  # fmt: skip
"""The largest absolute derivative of each, rounded up; of softmax, the largest norm of its Jacobian."""


def constants(record: Record, tracked: Sequence[int], inputs: Sequence[Array]) -> list[float] | None:
    """A Lipschitz constant of the operation in each of the ``tracked`` inputs; None where none is known.

    The other inputs are constants of these values.
    """
    name, operation = record.op.rstrip("_"), record.operation
    assert isinstance(operation, TorchOperation)
    if name in KEEPING or name in SIDE_BY_SIDE:
        return [1.0] * len(tracked)
    if name in LINEAR and (len(tracked) == 1 or name not in PRODUCTS):
        return [_linear_norm(name, operation, slot, inputs) for slot in tracked]
    if len(tracked) > 1:
        return None
    if name in ACTIVATIONS:
        return [ACTIVATIONS[name]]
    rule = _RULES.get(name)
    return None if rule is None else [rule(operation, inputs)]


def operator_norm(forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor], size: int) -> float:
    """The largest singular value of a linear map, given with its transpose; the residual is added, as an upper bound.

    >>> matrix = torch.tensor([[3.0, 0.0], [4.0, 0.0]], dtype=torch.float64)
    >>> round(operator_norm(lambda v: matrix @ v, lambda u: matrix.T @ u, 2), 9)
    5.0
    """
    spectrum = lanczos(lambda v: backward(forward(v)), size, STEPS)
    return math.sqrt(max(0.0, spectrum.high + spectrum.residuals[-1]))


def _linear_norm(name: str, operation: TorchOperation, slot: int, inputs: Sequence[Array]) -> float:
    if name == "linear" and slot == 0:
        return float(np.linalg.norm(inputs[1], 2))
    shape = inputs[slot].shape

    def given(v: Tensor) -> list[Array]:
        return [v.numpy().reshape(shape) if i == slot else value for i, value in enumerate(inputs)]

    nothing = operation.run(given(torch.zeros(inputs[slot].size, dtype=torch.float64)))

    def forward(v: Tensor) -> Tensor:
        parts = zip(operation.run(given(v)), nothing, strict=True)
        return torch.cat([torch.from_numpy(moved - still).flatten() for moved, still in parts])

    def backward(u: Tensor) -> Tensor:
        pieces = u.split([part.size for part in nothing])
        deltas = [piece.numpy().reshape(part.shape) for piece, part in zip(pieces, nothing, strict=True)]
        pulled = operation.pull(inputs, deltas)[slot]
        assert pulled is not None
        return torch.from_numpy(pulled).flatten()

    return operator_norm(forward, backward, inputs[slot].size)


def _argument(operation: TorchOperation, position: int, name: str, default: Any = None) -> Any:
    """An argument of the recorded call that is not a tensor, by its position or its name."""
    args, kwargs = tree_unflatten(operation.leaves, operation.spec)
    return args[position] if position < len(args) else kwargs.get(name, default)


def _max_pool(operation: TorchOperation, inputs: Sequence[Array]) -> float:
    """The square root of the number of windows that one number can be the maximum of."""
    kernel = _argument(operation, 1, "kernel_size")
    axes = inputs[0].ndim - 2
    sizes = kernel if isinstance(kernel, list | tuple) else [kernel] * axes
    stride = _argument(operation, 2, "stride") or sizes
    strides = stride if isinstance(stride, list | tuple) else [stride] * axes
    dilation = _argument(operation, 4, "dilation", 1)
    dilations = dilation if isinstance(dilation, list | tuple) else [dilation] * axes
    windows = [
        -(-size // step) if apart == 1 else size for size, step, apart in zip(sizes, strides, dilations, strict=True)
    ]
    return math.sqrt(math.prod(windows))


def _standardized(operation: TorchOperation, inputs: Sequence[Array], eps: float) -> float:
    """The constant of layer and group normalization: nearly constant inputs are stretched by up to 1 / sqrt(eps)."""
    gain = float(np.abs(inputs[1]).max()) if len(inputs) > 1 else 1.0
    return gain / math.sqrt(eps)


_RULES: dict[str, Callable[[TorchOperation, Sequence[Array]], float]] = {
    "leaky_relu": lambda operation, _: max(1.0, abs(float(_argument(operation, 1, "negative_slope", 0.01)))),
    "elu": lambda operation, _: max(1.0, abs(float(_argument(operation, 1, "alpha", 1.0)))),
    "prelu": lambda _, inputs: max(1.0, float(np.abs(inputs[1]).max())),
    "log_softmax": lambda operation, inputs: math.sqrt(inputs[0].shape[_argument(operation, 1, "dim", -1)]),
    "max_pool1d": _max_pool,
    "max_pool2d": _max_pool,
    "max_pool3d": _max_pool,
    "layer_norm": lambda operation, inputs: _standardized(operation, inputs, _argument(operation, 4, "eps", 1e-5)),
    "group_norm": lambda operation, inputs: _standardized(operation, inputs, _argument(operation, 4, "eps", 1e-5)),
}
