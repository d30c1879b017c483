r"""The laws of convolutions: layers that are called as ``layer(x)`` with x of (B, channels, ...) and have a kernel.

What networks call a convolution is a cross-correlation,
:math:`y_f(i) = b_f + \sum_{c, k} w_{fc}(k)\, x_c(s i + d k - p)` with stride s, dilation d and padding
p: the kernel is not flipped. A transposed convolution is the adjoint of one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import SIDE, accepted, answer, attribute, called, given_or, is_affine, is_plain
from deepcanon.laws.probe import TIGHT, distance, doubled, seeded

SIZES = (9, 10, 12)
"""Sides of inputs for which the size of the output is compared."""
NAME = "[Cc]onv(olution)?(Transpose)?([123]d)?|Causal|Same|Separable"
SETTINGS = (("stride", 1), ("padding", 0), ("dilation", 1))
"""The settings of a convolution, with what they are where a layer does not name them."""
CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@law
def the_map_is_affine(module: Any, batch: Batch) -> Measured:
    """The output is a bias plus a linear map of the input."""
    module, batch = doubled(module, batch)
    other = torch.randn(batch.x.shape, generator=seeded(1)).to(batch.x)
    with torch.no_grad():
        zero = module(torch.zeros_like(batch.x))
        gap = distance(module(2 * batch.x - 3 * other), 2 * module(batch.x) - 3 * module(other) + 2 * zero)
    return gap, TIGHT, f"2 f(x) - 3 f(y) is off by {gap:.2g}"


@law
def the_bias_belongs_to_the_channel(module: Any, batch: Batch) -> Measured:
    """Zeros give one number per output channel, the same at all positions."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        zero = module(torch.zeros_like(batch.x)).flatten(2)
    spread = float((zero - zero[:1, :, :1]).abs().max())
    return spread, TIGHT, f"the output of zeros varies by {spread:.2g} between positions"


@law
def a_shifted_input_shifts_the_output(module: Any, batch: Batch) -> Measured | None:
    """The layer is equivariant: an input moved by the stride gives the output moved by one, away from the border."""
    module, batch = doubled(module, batch)
    stride, transposed = _numbers(module, "stride", 1), _transposed(module)
    there, here = (1, stride) if transposed else (stride, 1)
    side = 4 * (_reach(module) + max(stride))
    x = torch.randn(2, batch.x.shape[1], *[side] * (batch.x.ndim - 2), generator=seeded(2)).to(batch.x)
    shifts_in = [there] * (x.ndim - 2) if isinstance(there, int) else list(there)
    shifts_out = [here] * (x.ndim - 2) if isinstance(here, int) else list(here)
    axes = list(range(2, x.ndim))
    with torch.no_grad():
        before, after = module(x), module(x.roll(shifts_in, axes))
    if before.shape != after.shape or min(before.shape[2:]) < 8:
        return None
    moved = before.roll(shifts_out, axes)
    inside = [slice(size // 3, 2 * size // 3 + 1) for size in before.shape[2:]]
    gap = distance(after[(..., *inside)], moved[(..., *inside)])
    return gap, TIGHT, f"inputs of side {side} moved by {shifts_in}; the output is off by {gap:.2g}"


@law
def the_size_is_that_of_the_formula(module: Any, batch: Batch) -> Measured | None:
    """The side of the output is floor((n + 2 p - d (k - 1) - 1) / s) + 1; of a transposed one that of its adjoint."""
    if attribute(module, "kernel_size") is None or getattr(module, "padding", 0) == "valid":
        return None
    same = _is_causal(module) or getattr(module, "padding", 0) == "same"  # padded to keep the size
    wrong, words = 0, []
    for size in SIZES:
        x = torch.zeros(1, batch.x.shape[1], *[size] * (batch.x.ndim - 2))
        found = answer(module, x)
        settings = zip(
            *(_numbers(module, name, 1) for name in ("kernel_size", "stride", "dilation")),
            *(_numbers(module, name, 0) for name in ("padding", "output_padding")),
            strict=True,
        )
        wanted = []
        for k, s, d, p, more in settings:
            forward = (size + 2 * p - d * (k - 1) - 1) // s + 1
            back = (size - 1) * s - 2 * p + d * (k - 1) + more + 1
            wanted.append(size if same else back if _transposed(module) else forward)
        came = None if found is None else list(found.shape[2:])
        wrong += came != wanted
        words.append(f"{size} gives {came}" + ("" if came == wanted else f", not {wanted}"))
    return wrong, 0, "; ".join(words)


@law
def taps_lie_a_dilation_apart(module: Any, batch: Batch) -> Measured | None:
    """An output depends on the inputs that its kernel reaches: k taps, of which neighbors lie d positions apart."""
    kernel = attribute(module, "kernel_size")
    if kernel is None or _transposed(module):
        return None
    module, batch = doubled(module, batch)
    reach = _reach(module)
    x = torch.zeros(1, batch.x.shape[1], *[4 * reach + 1] * (batch.x.ndim - 2)).to(batch.x).requires_grad_()
    output = module(x)
    middle = tuple(size // 2 for size in output.shape[2:])
    (slope,) = torch.autograd.grad(output[(0, slice(None), *middle)].sum(), x)
    wrong, words = 0, []
    sizes = zip(_numbers(module, "kernel_size", 1), _numbers(module, "dilation", 1), strict=True)
    for axis, (k, d) in enumerate(sizes, start=2):
        others = [dim for dim in range(x.ndim) if dim != axis]
        taps = slope.abs().sum(others).nonzero().flatten()
        steps = sorted(set(taps.diff().tolist()))
        wrong += len(taps) != k or (k > 1 and steps != [d])
        words.append(f"{len(taps)} taps, {steps or [0]} apart, for a kernel of {k} with dilation {d}")
    return wrong, 0, "; ".join(words)


@law
def it_is_the_cross_correlation(module: Any, batch: Batch) -> Measured | None:
    """The numbers are those of torch's convolution with the same kernel, which is not flipped."""
    found = _sole(module)
    mode = getattr(module, "padding_mode", "zeros")
    if found is None or _transposed(module) or isinstance(getattr(module, "padding", 0), str) or mode != "zeros":
        return None
    module, batch = doubled(module, batch)
    weight, bias = (None if part is None else part.double() for part in found)
    assert weight is not None
    settings = [_numbers(module, name, default) for name, default in (("stride", 1), ("dilation", 1))]
    x, padding = batch.x, _numbers(module, "padding", 0)
    if _is_causal(module):
        past = [d * (k - 1) for k, d in zip(weight.shape[2:], settings[1], strict=True)]
        x, padding = F.pad(x, (past[-1], 0)), [0]
    groups = getattr(module, "groups", x.shape[1] // weight.shape[1])
    with torch.no_grad():
        wanted = CONVOLVE[x.ndim - 2](x, weight, bias, settings[0], padding, settings[1], groups)
        came = module(batch.x)
    if came.shape != wanted.shape and attribute(module, "kernel_size") is None:
        return None  # a layer of its own, which says nothing of its strides and borders
    gap = distance(came, wanted)
    return gap, TIGHT, f"compared with torch's, the output is off by {gap:.2g}"


@law
def transposed_is_the_adjoint(module: Any, batch: Batch) -> Measured | None:
    """Of a transposed convolution, <f(x) - b, y> = <x, g(y)>, with the convolution g of the same kernel."""
    found = _sole(module)
    if found is None or not _transposed(module):
        return None
    module, batch = doubled(module, batch)
    weight, bias = (None if part is None else part.double() for part in found)
    assert weight is not None
    with torch.no_grad():
        output = module(batch.x) - (0 if bias is None else bias.reshape(-1, *[1] * (batch.x.ndim - 2)))
        y = torch.randn(output.shape, generator=seeded(3)).to(output)
        stride, padding, dilation = (_numbers(module, name, one) for name, one in SETTINGS)
        groups = int(getattr(module, "groups", 1))
        back = CONVOLVE[batch.x.ndim - 2](y, weight, None, stride, padding, dilation, groups)
        if back.shape != batch.x.shape:
            return 1, 0, f"its adjoint gives {tuple(back.shape)} where the input is {tuple(batch.x.shape)}"
        left, right = float((output * y).sum()), float((batch.x * back).sum())
    return abs(left - right), 1e-9 * (1 + abs(left)), f"the two inner products are {left:.6g} and {right:.6g}"


@law
def a_causal_layer_sees_no_future(module: Any, batch: Batch) -> Measured | None:
    """An output of a layer that is called causal depends on no later input, and on the present one."""
    if not _is_causal(module) or batch.x.ndim != 3:
        return None
    module, batch = doubled(module, batch)
    x = batch.x.clone().requires_grad_()
    output = module(x)
    if output.shape[2] != x.shape[2]:
        return 1, 0, f"{x.shape[2]} steps give {output.shape[2]}"
    leaks = 0
    for step in range(x.shape[2]):
        (slope,) = torch.autograd.grad(output[..., step].sum(), x, retain_graph=True)
        seen = slope.abs().sum((0, 1)) > 0
        leaks += int(seen[step + 1 :].sum()) + int(not seen[step])
    return leaks, 0, f"{leaks} of {x.shape[2]} x {x.shape[2]} pairs of steps are seen and must not be, or the reverse"


LAWS = (
    the_map_is_affine,
    the_bias_belongs_to_the_channel,
    a_shifted_input_shifts_the_output,
    the_size_is_that_of_the_formula,
    taps_lie_a_dilation_apart,
    it_is_the_cross_correlation,
    transposed_is_the_adjoint,
    a_causal_layer_sees_no_future,
)


def check_convolution(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of convolutions in any layer that gives (B, channels, ...) for (B, channels, ...)."""
    output = answer(module, batch.x)
    if not isinstance(output, Tensor) or output.ndim != batch.x.ndim or batch.x.ndim < 3:
        raise UsageError(f"a convolution gives as many axes as x of {tuple(batch.x.shape)} has, three or more")
    return outcomes(LAWS, module, batch)


def recognize_convolution(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Examples for a layer that is called a convolution and has a kernel, read off the shape of the kernel."""
    weight = _kernel(module)
    if not is_plain(module) or weight is None or not called(module, NAME):
        return None
    channels = attribute(module, "in_channels") or weight.shape[1] * getattr(module, "groups", 1)
    sizes = [channels, weight.shape[1], weight.shape[0]]
    tried = [_inputs(size, weight.ndim - 2) for size in dict.fromkeys(sizes)]
    x = accepted(module, given_or(batch, tried), lambda x, output: output.ndim == x.ndim)
    typed = isinstance(module, nn.modules.conv._ConvNd)
    return Batch(x) if x is not None and (typed or is_affine(module, x)) else None


def _inputs(channels: int, axes: int) -> Tensor:
    return torch.randn(3, channels, *[SIDE + 2] * axes, generator=seeded(0))


def _kernel(module: nn.Module) -> Tensor | None:
    """The parameter with the most axes, if these are those of a kernel; of a separable convolution the first one."""
    kernels = [parameter.detach() for parameter in module.parameters() if 3 <= parameter.ndim <= 5]
    return max(kernels, key=lambda kernel: kernel.ndim) if kernels else None


def _sole(module: nn.Module) -> tuple[Tensor, Tensor | None] | None:
    """The kernel and the bias of a layer that has no other parameters."""
    kernel, parameters = _kernel(module), [parameter.detach() for parameter in module.parameters()]
    biases = [parameter for parameter in parameters if parameter.ndim == 1]
    if kernel is None or len(parameters) != 1 + len(biases) or len(biases) > 1:
        return None
    return kernel, biases[0] if biases else None


def _numbers(module: nn.Module, name: str, default: int) -> list[int]:
    """A setting of a layer for each axis."""
    kernel = _kernel(module)
    axes = 1 if kernel is None else kernel.ndim - 2
    value = next((getattr(part, name) for part in module.modules() if hasattr(part, name)), default)
    if isinstance(value, int):
        return [value] * axes
    return list(value) if isinstance(value, tuple | list) and len(value) == axes else [default] * axes


def _reach(module: nn.Module) -> int:
    """The number of positions that a kernel spans along its longest axis, at least 2."""
    kernel = _kernel(module)
    sizes = [1] if kernel is None else kernel.shape[2:]
    return max(2, *(d * (k - 1) + 1 for k, d in zip(sizes, _numbers(module, "dilation", 1), strict=False)))


def _transposed(module: nn.Module) -> bool:
    return called(module, "Transpose([123]d)?|Transposed(Conv)?|Deconv(olution)?([123]d)?")


def _is_causal(module: nn.Module) -> bool:
    return called(module, "Causal(Conv[123]?d?|Convolution)?")
