"""Rules by which each operation of torch's lowest level (ATen) changes the receptive field of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from deepcanon.insights._engines.input_windows import Footprint, Window, renumbered, spread, together, vague


@dataclass(frozen=True)
class Operation:
    """One operation: its arguments by name, those tensors among them that depend on the input, and its output."""

    arguments: Mapping[str, Any]
    seen: Sequence[tuple[Tensor, Footprint]]
    output: Tensor

    def only(self, name: str) -> Footprint | None:
        """The footprint of this argument, if no other depends on the input."""
        if len(self.seen) == 1 and self.seen[0][0] is self.arguments.get(name):
            return self.seen[0][1]
        return None

    def axes(self, name: str = "dim") -> list[int]:
        """The axes given by this argument, counted from the first; all if there are none."""
        dims: Any = self.arguments.get(name)
        ndim = self.seen[0][0].ndim
        chosen: Sequence[int] = range(ndim) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        return [dim % ndim for dim in chosen]


Rule = Callable[[Operation], Footprint | None]
"""The footprint of the output; None where the operation is not of the form that the rule covers."""


def unknown(operation: Operation) -> Footprint:
    """The footprint of an unknown operation: every position may depend on all positions of its inputs."""
    return vague(together([(tensor.shape, spread(footprint, tensor.shape)) for tensor, footprint in operation.seen]))


def pointwise(operation: Operation) -> Footprint | None:
    shape = operation.output.shape
    aligned = []
    for tensor, footprint in operation.seen:
        before = len(shape) - tensor.ndim
        if before < 0:
            return None
        kept = {axis: axis + before for axis in range(tensor.ndim) if tensor.shape[axis] == shape[axis + before]}
        aligned.append((shape, renumbered(footprint, tensor.shape, kept)))
    return together(aligned)


def _each(values: Any, count: int) -> list[int]:
    """One value for each of ``count`` axes; of an empty list, none."""
    listed: list[int] = [values] if isinstance(values, int) else list(values)
    return listed * count if len(listed) == 1 else listed


def _sliding(operation: Operation, source: str, change: Callable[[Window, int], Window], axes: int) -> Footprint | None:
    """Windows along the last ``axes`` axes are changed, given the number of the axis among these; others must stay."""
    footprint = operation.only(source)
    if footprint is None:
        return None
    ((tensor, _),) = operation.seen
    first = tensor.ndim - axes
    return tuple(
        window if window.axis is None
        else change(window.bounded(tensor.shape), window.axis - first) if window.axis >= first
        else replace(window.spread(tensor.shape), exact=False)
        for window in footprint
    )  # fmt: skip


def _convolution(operation: Operation) -> Footprint | None:
    given = operation.arguments
    sizes = given["weight"].shape[2:]
    strides, paddings, apart = (_each(given[name], len(sizes)) for name in ("stride", "padding", "dilation"))

    def change(window: Window, i: int) -> Window:
        stride, padding, reach = strides[i], paddings[i], apart[i] * (sizes[i] - 1)
        if not given["transposed"]:
            return window.slid(stride, -padding, reach - padding)
        step = Fraction(1, stride)
        return window.slid(step, (padding - reach) * step, padding * step, exact=stride == 1)

    return _sliding(operation, "input", change, len(sizes))


def _pooling(axes: int) -> Rule:
    def rule(operation: Operation) -> Footprint | None:
        given = operation.arguments
        sizes = _each(given["kernel_size"], axes)
        strides, paddings = _each(given["stride"], axes) or sizes, _each(given["padding"], axes)
        apart = _each(given.get("dilation", 1), axes)
        return _sliding(
            operation,
            "self",
            lambda window, i: window.slid(strides[i], -paddings[i], apart[i] * (sizes[i] - 1) - paddings[i]),
            axes,
        )

    return rule


def _adaptive_pooling(axes: int) -> Rule:
    def rule(operation: Operation) -> Footprint | None:
        (tensor, _), = operation.seen  # fmt: skip

        def change(window: Window, i: int) -> Window:
            size, outputs = tensor.shape[i - axes], operation.output.shape[i - axes]
            step = Fraction(size, outputs)
            whole = step.denominator == 1
            return window.slid(step, 0 if whole else -1, step - 1 if whole else step, exact=whole)

        return _sliding(operation, "self", change, axes)

    return rule


def _enlarged(axes: int, linear: bool) -> Rule:
    def rule(operation: Operation) -> Footprint | None:
        if operation.arguments.get("align_corners"):
            return None
        (tensor, _), = operation.seen  # fmt: skip

        def change(window: Window, i: int) -> Window:
            step = Fraction(tensor.shape[i - axes], operation.output.shape[i - axes])
            middle = (step - 1) / 2 if linear else Fraction(0)
            return window.slid(step, middle - 1, middle + 1 if linear else 0, exact=False)

        return _sliding(operation, "self", change, axes)

    return rule


def _padded(operation: Operation) -> Footprint | None:
    around = operation.arguments.get("pad") or operation.arguments["padding"]
    axes = len(around) // 2
    before = list(reversed(around[::2]))
    return _sliding(operation, "self", lambda window, i: window.slid(1, -before[i], -before[i]), axes)


def _sliced(operation: Operation) -> Footprint | None:
    footprint = operation.only("self")
    if footprint is None:
        return None
    (tensor, _), = operation.seen  # fmt: skip
    (dim,) = operation.axes()
    start, step = operation.arguments["start"] or 0, operation.arguments["step"]
    start = min(max(start + tensor.shape[dim] if start < 0 else start, 0), tensor.shape[dim])
    return tuple(window.slid(step, start, start) if window.axis == dim else window for window in footprint)


def _selected(operation: Operation) -> Footprint | None:
    footprint = operation.only("self")
    if footprint is None:
        return None
    (tensor, _), = operation.seen  # fmt: skip
    (dim,) = operation.axes()
    index = operation.arguments["index"] % tensor.shape[dim]
    chosen = tuple(
        replace(window.slid(0, index, index), axis=None) if window.axis == dim else window for window in footprint
    )
    return renumbered(chosen, tensor.shape, _without([dim], tensor.ndim))


def _reduced(operation: Operation) -> Footprint | None:
    """The footprint of a reduction over the given axes, which may vanish."""
    footprint = operation.only("self")
    if footprint is None:
        return None
    (tensor, _), = operation.seen  # fmt: skip
    dims = operation.axes()
    kept = operation.output.ndim == tensor.ndim
    new = {axis: axis for axis in range(tensor.ndim) if axis not in dims} if kept else _without(dims, tensor.ndim)
    return renumbered(footprint, tensor.shape, new)


def _mixed_positions(operation: Operation) -> Footprint | None:
    """All positions beyond the first two axes together: normalization by the statistics of an example."""
    if operation.arguments.get("training") is False:
        return pointwise(operation)
    return tuple(window.spread(tensor.shape) for tensor, footprint in operation.seen[:1] for window in footprint)


def _layer_norm(operation: Operation) -> Footprint | None:
    footprint = operation.only("input")
    if footprint is None:
        return None
    (tensor, _), = operation.seen  # fmt: skip
    kept = range(tensor.ndim - len(operation.arguments["normalized_shape"]))
    return renumbered(footprint, tensor.shape, {axis: axis for axis in kept})


def _reshaped(operation: Operation) -> Footprint | None:
    """The footprint of a reshape: an axis that keeps its size and stride stays, the positions of others are mixed."""
    (tensor, footprint), *_ = operation.seen
    old, new = _outside(tensor.shape), _outside(operation.output.shape)
    moved = {axis: new.index(key) for axis, key in enumerate(old) if key in new}
    whole = [window.axis is None or window.axis in moved or tensor.shape[window.axis] == 1 for window in footprint]
    found = renumbered(footprint, tensor.shape, moved)
    return tuple(replace(window, exact=window.exact and kept) for window, kept in zip(found, whole, strict=True))


def _outside(shape: Sequence[int]) -> list[tuple[int, int]]:
    """For each axis, how many numbers the axes before it span, and its own size."""
    before = accumulate(shape, lambda a, b: a * b, initial=1)
    return list(zip(before, shape, strict=False))


def _permuted(operation: Operation) -> Footprint | None:
    (tensor, footprint), *_ = operation.seen
    if "dims" in operation.arguments:
        order = operation.axes("dims")
    else:
        order = list(range(tensor.ndim))
        first, second = (operation.arguments.get(name, i) % tensor.ndim for i, name in enumerate(("dim0", "dim1")))
        order[first], order[second] = order[second], order[first]
    return renumbered(footprint, tensor.shape, {old: new for new, old in enumerate(order)})


def _catenated(operation: Operation) -> Footprint | None:
    dim = operation.arguments["dim"] % operation.output.ndim
    if any(window.axis == dim for _, footprint in operation.seen for window in footprint):
        return None
    return together([(tensor.shape, footprint) for tensor, footprint in operation.seen])


def _split(operation: Operation) -> Footprint | None:
    (dim,) = operation.axes()
    (_, footprint), *_ = operation.seen
    return None if any(window.axis == dim for window in footprint) else footprint


def _multiplied(operation: Operation) -> Footprint | None:
    """The footprint of a matrix product: rows of the first and columns of the second stay positions."""
    given = operation.arguments
    for name, summed in (("self", 1), ("mat1", 1), ("batch1", 1), ("mat2", 2), ("batch2", 2), ("input", 1)):
        footprint = operation.only(name)
        if footprint is not None and not (name == "self" and {"mat1", "batch1"} & given.keys()):
            (tensor, _), = operation.seen  # fmt: skip
            gone = tensor.ndim - summed
            return renumbered(footprint, tensor.shape, {axis: axis for axis in range(tensor.ndim) if axis != gone})
    return None


def _without(dims: Sequence[int], ndim: int) -> dict[int, int]:
    return {axis: new for new, axis in enumerate(axis for axis in range(ndim) if axis not in dims)}


ALIKE = {"clone", "_to_copy", "alias", "detach", "hardswish", "expand", "copy", "contiguous", "_prelu_kernel", "lift"}
"""Elementwise operations that torch does not tag as such."""

RULES: dict[str, Rule] = {
    "convolution": _convolution,
    **{f"max_pool{axes}d_with_indices": _pooling(axes) for axes in (2, 3)},
    **{f"avg_pool{axes}d": _pooling(axes) for axes in (1, 2, 3)},
    **{f"_adaptive_avg_pool{axes}d": _adaptive_pooling(axes) for axes in (2, 3)},
    **{f"adaptive_max_pool{axes}d": _adaptive_pooling(axes) for axes in (2, 3)},
    **{f"upsample_nearest{axes}d": _enlarged(axes, linear=False) for axes in (1, 2, 3)},
    "upsample_bilinear2d": _enlarged(2, linear=True),
    "constant_pad_nd": _padded,
    **{f"{kind}_pad{axes}d": _padded for kind in ("reflection", "replication") for axes in (1, 2, 3)},
    "slice": _sliced,
    "select": _selected,
    **dict.fromkeys(("mean", "sum", "amax", "amin", "max", "min", "var", "logsumexp", "linalg_vector_norm"), _reduced),
    **dict.fromkeys(("_softmax", "_log_softmax", "cumsum"), _reduced),
    **dict.fromkeys(("native_batch_norm", "native_group_norm", "_batch_norm_impl_index"), _mixed_positions),
    "native_layer_norm": _layer_norm,
    **dict.fromkeys(("view", "_unsafe_view", "_reshape_alias", "unsqueeze", "squeeze"), _reshaped),
    **dict.fromkeys(("permute", "transpose", "t"), _permuted),
    "cat": _catenated,
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "linear"), _multiplied),
}  # fmt: skip
"""The rule of each of torch's operations by its name."""


def rule_of(func: Any) -> Rule:
    """The rule for one of torch's operations; for an unknown one, the weakest."""
    name = func.overloadpacket.__name__.removesuffix("_")
    if name in RULES:
        return RULES[name]
    return pointwise if torch.Tag.pointwise in func.tags or name in ALIKE else unknown
