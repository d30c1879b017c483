"""Gaussian error linear unit (GELU) in its tanh approximation, computed by a sigmoid."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715 * LINEAR
AT_ONCE = 2**16
"""The number of values per chunk of the backward pass: few enough for the intermediates to stay in the cache."""


def gelu_tanh(x: Tensor) -> Tensor:
    r"""The GELU in its tanh approximation, as in GPT-2.

    .. math:: \tfrac x2 (1 + \tanh u) = x \sigma(2u), \qquad u = \sqrt{2 / \pi}\, (x + 0.044715\, x^3)

    On a CPU, where tanh is slow, the right-hand side takes half the time of torch's own gelu, forward and backward.

    References:
        | Gaussian Error Linear Units (Hendrycks and Gimpel, 2016), https://arxiv.org/abs/1606.08415

    >>> gelu_tanh(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1588,  0.0000,  0.8412])
    """
    if x.device.type == "cpu" and x.requires_grad and torch.is_grad_enabled():
        result, _ = _BySigmoid.apply(x)  # type: ignore[no-untyped-call]
        return cast(Tensor, result)
    return functional.gelu(x, approximate="tanh")


class _BySigmoid(torch.autograd.Function):
    """The GELU as x times a sigmoid; the sigmoid is saved for the backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        step = _step(x)
        return x * step, step

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
        x, step = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative the step must depend on x
            step = _step(x)
            slope: Tensor = step * (1 + (1 - step) * x * (LINEAR + 3 * CUBIC * x * x))
            return gradient * slope
        result = torch.empty_like(x, memory_format=torch.contiguous_format)
        parts = (tensor.reshape(-1).split(AT_ONCE) for tensor in (x, step, gradient, result))
        for x_, step_, gradient_, out in zip(*parts, strict=True):  # the same in place
            torch.mul(x_, x_, out=out)
            out.mul_(3 * CUBIC).add_(LINEAR).mul_(x_).mul_(1 - step_).add_(1).mul_(step_).mul_(gradient_)
        return result


def _step(x: Tensor) -> Tensor:
    return ((x * x).mul_(CUBIC).add_(LINEAR) * x).sigmoid_()
