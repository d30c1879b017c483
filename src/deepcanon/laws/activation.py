r"""The laws of activation functions: modules that are called as ``f(x)`` and act on every value, or over one axis.

A function whose name is known is compared with its formula, at several values of its constants: a leaky ReLU has the
slope :math:`\alpha` below zero also where :math:`\alpha > 1`, unlike :math:`\max(\alpha x, x)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import accepted, answer, called, given_or, is_plain, keeps_shape, vectors
from deepcanon.laws.probe import doubled, seeded

SLOPES = ("negative_slope", "alpha", "slope", "weight")
"""The names of the constant of a leaky ReLU, learned or not."""
BOUND = 1e-6
CONSTANTS = (0.2, 3.0)
STEP = 1e-6


def _selu(x: Tensor) -> Tensor:
    return 1.0507009873554805 * torch.where(x > 0, x, 1.6732632423543772 * (x.exp() - 1))


FORMULAS: dict[str, tuple[Callable[[Tensor], Tensor], ...]] = {
    "(?<!Leaky)(?<!Parametric)(?<!P)(?<!R)ReLU(?!6|Squared)": (lambda x: x.clamp_min(0),),
    "ReLU6": (lambda x: x.clamp(0, 6),),
    "(NewG|FastG|QuickG|G)ELU[a-zA-Z]*": (
        lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
        lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        lambda x: x / (1 + (-1.702 * x).exp()),
    ),
    "(?<!Hard)Tanh(?!shrink)": (lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()),),
    "(?<!Log)(?<!Hard)[Ss]igmoid|Logistic": (lambda x: 1 / (1 + (-x).exp()),),
    "SiLU|Swish": (lambda x: x / (1 + (-x).exp()),),
    "Mish": (lambda x: x * torch.tanh(torch.log1p(x.exp())),),
    "SELU": (_selu,),
    "(?<!Sqrt)Softplus": (lambda x: torch.log1p(x.exp()),),
    "(?<![SCGI])ELU": (lambda x: torch.where(x > 0, x, x.exp() - 1),),
    "Softsign": (lambda x: x / (1 + x.abs()),),
    "Arctan": (torch.atan,),
}
"""Formulas by the names of classes, some with their usual approximations."""

LEAKY = "(Leaky|Parametric|P)(ReLU|Relu)"
SIMPLEX = "(?<!Log)[Ss]oftmax(2d)?|Softmin"


@law
def each_value_is_treated_alone(module: Any, batch: Batch) -> Measured | None:
    """An activation acts on every value by one and the same function; a softmax acts on rows."""
    if called(module, "[Ss]oft(max|min)(2d)?|LogSoftmax|GLU|MultiheadAttention"):
        return None
    module, batch = doubled(module, batch)
    x = batch.x.clone()
    with torch.no_grad():
        before = module(x.clone())
        other = x.clone()
        other.flatten()[1:] = torch.randn(x.numel() - 1, generator=seeded(1)).to(x)
        moved = float((module(other.clone()).flatten()[0] - before.flatten()[0]).abs())
    return moved, BOUND, f"other values move an output by {moved:.2g}"


@law
def the_formula_is_that_of_its_name(module: Any, batch: Batch) -> Measured | None:
    """An activation with the name of a known one has its values."""
    name = type(module).__name__
    known = next((each for words, each in FORMULAS.items() if re.search(rf"(?:{words})(?![a-z])", name)), None)
    if known is None:
        return None
    module, _ = doubled(module, batch)
    x = torch.linspace(-4, 7, 111, dtype=torch.float64)
    x = x.repeat(batch.x[0].numel(), 1).T.reshape(111, *batch.x.shape[1:])
    with torch.no_grad():
        found = module(x.clone())
    gap = min(float((found - formula(x)).abs().max()) for formula in known)
    return gap, 1e-5, f"values from -4 to 7 are off by {gap:.2g}"


@law
def a_leak_is_the_slope_below_zero(module: Any, batch: Batch) -> Measured | None:
    """A leaky ReLU is x above zero and alpha x below, for every alpha, small or larger than 1."""
    if not called(module, LEAKY):
        return None
    module, batch = doubled(module, batch)
    x = batch.x - batch.x.mean()
    worst = 0.0
    with torch.no_grad():
        for alpha in CONSTANTS:
            if not _set(module, alpha):
                return None
            found = module(x.clone())
            worst = max(worst, float((found - torch.where(x > 0, x, alpha * x)).abs().max()))
    return worst, BOUND, f"leaks of {' and '.join(map(str, CONSTANTS))}; the worst value is off by {worst:.2g}"


@law
def a_softmax_gives_probabilities(module: Any, batch: Batch) -> Measured | None:
    """Outputs of a softmax are positive, sum to 1 along an axis, and do not change when a constant is added."""
    if not called(module, SIMPLEX):
        return None
    module, batch = doubled(module, batch)
    with torch.no_grad():
        found, shifted = module(batch.x.clone()), module(batch.x + 100)
    sums = min(float((found.sum(axis) - 1).abs().max()) for axis in range(found.ndim))
    gap = max(sums, float((found - shifted).abs().max()), float((-found).clamp_min(0).max()))
    return gap, BOUND, f"sums are off by {sums:.2g}; adding 100 moves it by {float((found - shifted).abs().max()):.2g}"


@law
def gradient_is_the_slope(module: Any, batch: Batch) -> Measured | None:
    """The gradient agrees with central differences; units that are trained straight through are exempt."""
    module, batch = doubled(module, batch)
    x = batch.x.clone().requires_grad_()
    line = torch.randn(x.shape, generator=seeded(2)).to(x)
    weights = torch.rand(x.shape, generator=seeded(3)).to(x)
    (slope,) = torch.autograd.grad((module(x * 1.0) * weights).sum(), x)
    with torch.no_grad():
        ends = [(module(batch.x + side * STEP * line) * weights).sum() for side in (1, -1)]
        levels = len(module(batch.x.clone()).unique())
    if levels <= 2 < batch.x.numel():
        return None  # a threshold, whose derivative is 0 and whose gradient is an estimate on purpose
    found, wanted = float((slope * line).sum()), float((ends[0] - ends[1]) / (2 * STEP))
    return abs(found - wanted), 1e-3 * (1 + abs(wanted)), f"the gradient is {found:.6g}, differences say {wanted:.6g}"


LAWS = (
    each_value_is_treated_alone,
    the_formula_is_that_of_its_name,
    a_leak_is_the_slope_below_zero,
    a_softmax_gives_probabilities,
    gradient_is_the_slope,
)


def check_activation(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of activations in any module that keeps the shape of its input."""
    output = answer(module, batch.x)
    if not isinstance(output, Tensor) or output.shape != batch.x.shape:
        raise UsageError(f"an activation gives {tuple(batch.x.shape)} for {tuple(batch.x.shape)}")
    return outcomes(LAWS, module, batch)


def recognize_activation(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Examples for a module without parts that acts on every value alone, or that is called a softmax."""
    sizes = sum(parameter.numel() for parameter in module.parameters())
    if not is_plain(module) or list(module.children()) or sizes > 64 or isinstance(module, nn.Identity):
        return None
    x = accepted(module, given_or(batch, vectors(module)), keeps_shape)
    if x is None:
        return None
    x = x.clone()
    if called(module, "|".join((LEAKY, SIMPLEX, *FORMULAS))):
        return Batch(x)
    return Batch(x) if _is_pointwise(module, x) else None


def _is_pointwise(module: nn.Module, x: Tensor) -> bool:
    """Whether the same values in another order have the same outputs in that order."""
    order = torch.randperm(x.numel(), generator=seeded(4))
    once, other = answer(module, x), answer(module, x.flatten()[order].reshape(x.shape))
    return torch.allclose(once.flatten()[order], other.flatten()) and not torch.allclose(once, x)


def _set(module: nn.Module, alpha: float) -> bool:
    """Give a leaky ReLU another slope; whether it has one."""
    for name in SLOPES:
        value = getattr(module, name, None)
        if isinstance(value, float):
            setattr(module, name, alpha)
            return True
        if isinstance(value, Tensor):
            value.fill_(alpha)
            return True
    return False
