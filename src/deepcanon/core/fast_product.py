"""Products of matrices by the library that is faster on this processor: MKL, which torch calls, or oneDNN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deepcanon.core.fusing import is_watched

LEAST = 2**21
"""The fewest multiplications for which another library is asked: in fewer, its call takes longer than it saves."""
NARROWEST = 16
"""The smallest side of a matrix for which it is, the width of its kernels."""


@cache
def multiplies_faster() -> bool:
    """Whether oneDNN is faster: MKL has AVX-512 for processors of Intel only, and on others takes twice the time."""
    processor = torch.cpu.get_capabilities()
    other = processor.get("avx512_f", False) and not str(processor["cpu_name"]).startswith("Intel")
    there = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return bool(other and there and hasattr(torch.ops.mkldnn, "_linear_pointwise"))


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """``a @ b``, plus ``bias`` for every row, of two matrices; where a gradient is recorded, torch's own.

    >>> product(torch.ones(1, 2), torch.ones(2, 3), torch.arange(3.0))
    tensor([[2., 3., 4.]])
    """
    if _pays(a, b, *b.shape) and not torch.is_grad_enabled():
        found: Tensor = torch.ops.mkldnn._linear_pointwise.default(a, b.T, bias, "none", [], "")
        return found
    return a @ b if bias is None else torch.addmm(bias, a, b)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """As torch's ``linear``, with :func:`product` for itself and its gradients."""
    if not _pays(x, weight, *reversed(weight.shape)):
        return F.linear(x, weight, bias)
    multiply = _Linear.apply if torch.is_grad_enabled() else _linear
    found: Tensor = multiply(x, weight, bias)
    return found


@contextmanager
def fast_linear_layers(model: nn.Module) -> Iterator[None]:
    """Within it the linear layers of a model that is being trained are computed by :func:`linear`.

    What is measured of it meanwhile is computed as always, so that it can be measured again to the last digit.
    """
    layers = [layer for layer in model.modules() if type(layer) is nn.Linear] if multiplies_faster() else []
    for layer in layers:
        vars(layer)["forward"] = _Trained(layer)
    try:
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)  # the method of the class shows again


class _Trained:
    """The forward pass of a linear layer that may be in training."""

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer

    def __call__(self, input: Tensor) -> Tensor:
        multiply = linear if self.layer.training and torch.is_grad_enabled() else F.linear
        return multiply(input, self.layer.weight, self.layer.bias)


class _Linear(torch.autograd.Function):
    """A linear map whose products, those of its gradient too, are taken by the faster library."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows = gradient.reshape(-1, gradient.shape[-1])
        return (
            product(rows, weight).view(x.shape) if of_x else None,
            product(rows.T, x.reshape(-1, x.shape[-1])) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return product(x.reshape(-1, x.shape[-1]), weight.T, bias).view(*x.shape[:-1], -1)


def _pays(a: Tensor, b: Tensor, inner: int, outputs: int) -> bool:
    """Whether the product of the rows of a with b, (inner, outputs), is worth another library's call.

    Most products are small, so that the sizes come first; but a compiler would take them for conditions.
    """
    if torch.compiler.is_compiling():
        return False
    numbers = a.numel()
    if numbers * outputs < LEAST or min(numbers // inner, inner, outputs) < NARROWEST or inner != a.shape[-1]:
        return False
    usual = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in (a, b))
    return usual and multiplies_faster() and not is_watched(a, b)
