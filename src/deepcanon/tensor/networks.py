"""Operations of neural networks: linear, softmax, cross-entropy, convolution, pooling (the table, last part).

A row stands here only where one is faster or more stable than the same thing composed of other rows. A convolution
is, as everywhere in deep learning, a cross-correlation: the kernel is not flipped.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from deepcanon.tensor.elementwise import erf, sigmoid, softplus
from deepcanon.tensor.errors import ShapeError
from deepcanon.tensor.movement import expand_dims, getitem, pad, plain_key, reshape, squeeze
from deepcanon.tensor.operation import Operation, Value
from deepcanon.tensor.reductions import logsumexp, mean

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]


def _flat(x: Value) -> Value:
    """All but the last axis as one."""
    return reshape(x, shape=(-1, x.shape[-1]))


def _linear(x: Array, w: Array, b: Array) -> Any:
    y = np.matmul(_flat(x), w.T)
    y += b
    return y.reshape(*x.shape[:-1], -1)


linear = Operation(  # inputs in rows, weights (out, in)
    "linear",
    _linear,
    lambda g, y, x, w, b: g @ w,
    lambda g, y, x, w, b: _flat(g).mT @ _flat(x),
    lambda g, y, x, w, b: g,
    hint="x must end with the number of inputs, w have shape (outputs, inputs) and b (outputs,)",
)


def _softmax(x: Array, axis: int = -1) -> Array:
    e: Array = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    e /= e.sum(axis=axis, keepdims=True)
    return e


softmax = Operation("softmax", _softmax, lambda g, y, x, axis=-1: y * (g - (g * y).sum(axis=axis, keepdims=True)))
log_softmax = Operation(
    "log_softmax",
    lambda x, axis=-1: x - logsumexp(x, axis=axis, keepdims=True),
    lambda g, y, x, axis=-1: g - np.exp(y) * g.sum(axis=axis, keepdims=True),
)


def _cross_entropy(x: Array, labels: Array) -> Any:
    return np.mean(logsumexp(x, axis=-1) - np.take_along_axis(x, labels[..., None], -1)[..., 0])


def _cross_entropy_rule(g: Value, y: Value, x: Value, labels: Array) -> Value:
    """Probabilities minus the one-hot label, for the mean over examples."""
    truth = np.zeros(x.shape, x.dtype)
    np.put_along_axis(truth, labels[..., None], 1, -1)
    return (softmax(x) - truth) * (g * (1 / max(labels.size, 1)))


_entropy = Operation("cross_entropy", _cross_entropy, _cross_entropy_rule)


def cross_entropy(x: Value, labels: Any) -> Value:
    """The mean cross-entropy (negative log-likelihood), in nats, of integer labels under logits in the last axis."""
    classes = np.asarray(plain_key(labels))
    if classes.shape != x.shape[:-1] or classes.dtype.kind not in "iu":
        raise ShapeError(
            f"cross_entropy needs one integer label for each row of logits of shape {x.shape} "
            f"(got labels of shape {classes.shape}, {classes.dtype})"
        )
    return _entropy(x, labels=classes)


def _centered(x: Value, eps: float) -> tuple[Value, Value]:
    away = x - mean(x, axis=-1, keepdims=True)
    scale = 1 / np.sqrt(mean(away * away, axis=-1, keepdims=True) + eps)
    return away * scale, scale


def _layer_norm_rule(g: Value, y: Value, x: Value, w: Value, b: Value, eps: float) -> list[Value]:
    z, scale = _centered(x, eps)
    h = g * w
    return [
        scale * (h - mean(h, axis=-1, keepdims=True) - z * mean(h * z, axis=-1, keepdims=True)),
        g * z,
        g,
    ]


_layer_norm = Operation("layer_norm", lambda x, w, b, eps: _centered(x, eps)[0] * w + b, joint=_layer_norm_rule)


def layer_norm(x: Value, w: Value, b: Value, eps: float = 1e-5) -> Value:
    """Each vector of the last axis shifted and scaled to mean 0 and variance 1, then by w and b."""
    return _layer_norm(x, w, b, eps=eps)


def embedding(w: Value, indices: Any) -> Value:
    """The rows of a table at integer indices."""
    return getitem(w, key=plain_key(indices))


def gelu(x: Value) -> Value:
    """x times the probability that a standard normal variable is below it."""
    return x * (0.5 * (1 + erf(x * math.sqrt(0.5))))


def silu(x: Value) -> Value:
    """x times its logistic sigmoid."""
    return x * sigmoid(x)


def mean_squared_error(x: Value, target: Value) -> Value:
    """The mean over all elements of the squared difference."""
    d = x - target
    return mean(d * d)


def binary_cross_entropy(logits: Value, target: Value) -> Value:
    """The mean binary cross-entropy, in nats, of targets from 0 to 1 under logits."""
    return mean(softplus(logits) - logits * target)


def _slices(i: int, j: int, out: Pair, stride: Pair, dilation: Pair) -> tuple[Any, ...]:
    """The pixels under tap (i, j) of a kernel: one for each position of the output."""
    return (
        ...,
        slice(i * dilation[0], i * dilation[0] + (out[0] - 1) * stride[0] + 1, stride[0]),
        slice(j * dilation[1], j * dilation[1] + (out[1] - 1) * stride[1] + 1, stride[1]),
    )


def _out(size: tuple[int, ...], kernel: Pair, stride: Pair, dilation: Pair) -> Pair:
    rows, columns = ((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(size, kernel, stride, dilation, strict=True))
    if rows < 1 or columns < 1:
        raise ShapeError(f"a window of {kernel}, dilated by {dilation}, does not fit into {tuple(size)}; pad the input")
    return rows, columns


def _windows(x: Array, kernel: Pair, stride: Pair, dilation: Pair) -> Array:
    """The taps of all windows: (N, C, kernel rows, kernel columns, output rows, output columns)."""
    out = _out(x.shape[-2:], kernel, stride, dilation)
    taps = np.empty((*x.shape[:2], *kernel, *out), x.dtype)
    for i, j in np.ndindex(*kernel):
        taps[:, :, i, j] = x[_slices(i, j, out, stride, dilation)]
    return taps


def _fold(taps: Array, size: Pair, stride: Pair, dilation: Pair) -> Array:
    """The reverse of windows (col2im): each tap added back to its pixel."""
    x = np.zeros((*taps.shape[:2], *size), taps.dtype)
    for i, j in np.ndindex(*taps.shape[2:4]):
        x[_slices(i, j, taps.shape[4:], stride, dilation)] += taps[:, :, i, j]
    return x


def _columns(x: Array, kernel: Pair, stride: Pair, dilation: Pair) -> Any:
    taps = _windows(x, kernel, stride, dilation)
    return taps.reshape(len(taps), -1, taps.shape[4] * taps.shape[5])


def _convolve(x: Array, w: Array, stride: Pair, dilation: Pair) -> Any:
    out = _out(x.shape[-2:], w.shape[2:], stride, dilation)
    return np.matmul(w.reshape(len(w), -1), _columns(x, w.shape[2:], stride, dilation)).reshape(len(x), len(w), *out)


def _to_input(g: Array, w: Array, size: Pair, stride: Pair, dilation: Pair) -> Any:
    taps = np.matmul(w.reshape(len(w), -1).T, g.reshape(*g.shape[:2], -1))
    return _fold(taps.reshape(len(g), *w.shape[1:], *g.shape[2:]), size, stride, dilation)


def _to_kernel(g: Array, x: Array, kernel: Pair, stride: Pair, dilation: Pair) -> Any:
    columns = _columns(x, kernel, stride, dilation)
    total = np.matmul(g.reshape(*g.shape[:2], -1), columns.transpose(0, 2, 1)).sum(0)
    return total.reshape(g.shape[1], x.shape[1], *kernel)


# A convolution is linear in x and in w. Its two derivatives are linear in the same way, and the derivatives of each of
# the three are the other two: three rows that close under differentiation.
_conv: Operation = Operation(
    "conv2d",
    _convolve,
    lambda g, y, x, w, **how: _conv_input(g, w, size=x.shape[2:], **how),
    lambda g, y, x, w, **how: _conv_kernel(g, x, kernel=w.shape[2:], **how),
    hint="x must be (N, channels, height, width) and w (filters, channels, rows, columns)",
)
_conv_input: Operation = Operation(
    "conv2d_input",
    _to_input,
    lambda d, y, g, w, size, **how: _conv(d, w, **how),
    lambda d, y, g, w, size, **how: _conv_kernel(g, d, kernel=w.shape[2:], **how),
)
_conv_kernel: Operation = Operation(
    "conv2d_kernel",
    _to_kernel,
    lambda d, y, g, x, kernel, **how: _conv(x, d, **how),
    lambda d, y, g, x, kernel, **how: _conv_input(g, d, size=x.shape[2:], **how),
)
windows: Operation = Operation(
    "windows", _windows, lambda g, y, x, kernel, **how: fold(g, size=x.shape[2:], **how), reads=False
)
fold: Operation = Operation(
    "fold", _fold, lambda g, y, x, size, **how: windows(g, kernel=x.shape[2:4], **how), reads=False
)


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int) else value


def conv2d(
    x: Value,
    w: Value,
    b: Value = None,
    *,
    stride: int | Pair = 1,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
) -> Value:
    """The cross-correlation of images (N, C, H, W) with kernels (F, C, rows, columns); zeros around the images."""
    rows, columns = _pair(padding)
    if rows or columns:
        x = pad(x, ((0, 0), (0, 0), (rows, rows), (columns, columns)))
    y = _conv(x, w, stride=_pair(stride), dilation=_pair(dilation))
    return y if b is None else y + reshape(b, shape=(-1, 1, 1))


def conv1d(x: Value, w: Value, b: Value = None, *, stride: int = 1, padding: int = 0, dilation: int = 1) -> Value:
    """The cross-correlation of sequences (N, C, T) with kernels (F, C, taps)."""
    wide = conv2d(
        expand_dims(x, 2), expand_dims(w, 2), b, stride=(1, stride), padding=(0, padding), dilation=(1, dilation)
    )
    return squeeze(wide, 2)


def max_pool2d(x: Value, kernel: int | Pair, stride: int | Pair | None = None) -> Value:
    """The largest value of each window; of equal ones the first gets the delta."""
    rows, columns = kernel = _pair(kernel)
    down, right = stride = kernel if stride is None else _pair(stride)
    taps = _windows(plain_key(x), kernel, stride, (1, 1))
    best = taps.reshape(*taps.shape[:2], rows * columns, *taps.shape[4:]).argmax(axis=2)
    images, channels, i, j = np.ogrid[tuple(slice(size) for size in best.shape)]
    return getitem(x, key=(images, channels, i * down + best // columns, j * right + best % columns))


def avg_pool2d(x: Value, kernel: int | Pair, stride: int | Pair | None = None) -> Value:
    """The mean of each window."""
    step = _pair(kernel if stride is None else stride)
    return mean(windows(x, kernel=_pair(kernel), stride=step, dilation=(1, 1)), axis=(2, 3))


def dropout(x: Value, p: float, generator: np.random.Generator) -> Value:
    """Elements set to 0 with probability p, the others scaled up so that the mean stays."""
    kept = generator.random(x.shape) >= p
    return x * (kept.astype(x.dtype) * (1 / (1 - p)))


def accuracy(logits: Value, labels: Any) -> float:
    """The share of rows whose largest logit is that of the label."""
    return float(np.mean(np.argmax(plain_key(logits), axis=-1) == plain_key(labels)))
