r"""The laws of initialization: the variance of the weights of a network that has not been trained.

A weight matrix turns values of mean square 1 into sums of variance :math:`N_{in} \sigma^2`, and gradients into ones of
:math:`N_{out} \sigma^2`. The activation takes a part of it, for which the gain makes up: for ReLU
:math:`\sigma^2 = 2 / N_{in}` (He et al., 2015), for linear units :math:`2 / (N_{in} + N_{out})` (Glorot and Bengio,
2010). A module that names its rule, by ``initialize`` or ``initialization`` in the words of
:mod:`deepcanon.nn.initialize`, is held to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import attribute, is_plain
from deepcanon.nn.initialize import TRANSPOSED, fans, initialize

LARGEST = (5 / 3) ** 2
"""The largest square of a gain in use, that of tanh."""
GAINS = {nn.ReLU: 2.0, nn.Identity: 1.0, nn.Tanh: LARGEST, nn.SELU: 1.0, nn.Sigmoid: LARGEST}
"""The squares of the gains of activations, where the next layer is one of them."""
SIGMAS = 6.0
SUMS = (nn.Linear, nn.modules.conv._ConvNd)
"""Layers whose outputs are weighted sums of their inputs."""
DRAWS = 20


@law
def weights_do_not_amplify(module: Any, batch: Batch) -> Measured | None:
    """In at least one direction, forward or backward, no layer makes signals larger than its activation makes up for.

    The variance of a layer's weights times the smaller of its fans is at most the square of the gain: 2 before a ReLU.
    """
    worst, bound, where = 0.0, 1.0, "no weights"
    for name, weight, gain in _weights(module):
        found = float(weight.square().mean()) * min(fans(weight)) / gain
        limit = 1 + SIGMAS * math.sqrt(_excess(weight) / weight.numel())
        if found / limit >= worst / bound:
            words = "fan-in" if fans(weight)[0] <= fans(weight)[1] else "fan-out"
            worst, bound, where = (
                found,
                limit,
                f"{name}: variance times {words} is {found * gain:.3g}, gain^2 {gain:.3g}",
            )
    return (worst, bound, where) if bound > 1 else None


@law
def weights_have_no_mean(module: Any, batch: Batch) -> Measured | None:
    """Initial weights are centered: a common sign makes all units of a layer grow together."""
    worst, where = 0.0, "no weights"
    for name, weight, _ in _weights(module):
        spread = float(weight.std())
        if weight.numel() < 16 or spread == 0:
            continue
        off = abs(float(weight.mean())) / spread * math.sqrt(weight.numel())
        if off >= worst:
            worst, where = off, f"{name}: the mean is {float(weight.mean()):.3g}, {off:.2f} standard errors from 0"
    return (worst, SIGMAS, where) if where != "no weights" else None


@law
def units_differ(module: Any, batch: Batch) -> Measured | None:
    """No two units of a layer begin with the same weights: they would get the same gradients and stay the same."""
    same, layers = 0, 0
    for _, weight, _ in _weights(module):
        rows = weight.flatten(1)
        if not bool(rows.any()):
            continue  # zeros on purpose, as at the end of a residual branch
        layers += 1
        same += len(rows) - len(rows.unique(dim=0))
    return (same, 0, f"{layers} layers; {same} units repeat another") if layers else None


@law
def variance_is_that_of_the_rule(module: Any, batch: Batch) -> Measured | None:
    """A module that names its rule of initialization has weights of that variance."""
    rule = attribute(module, "initialize", "initialization")
    if not isinstance(rule, str):
        return None
    worst, bound, where = 0.0, 1.0, "no weights"
    for name, weight, _ in _weights(module):
        fan_in, fan_out = fans(weight)
        like = nn.Linear(fan_in, fan_out)
        squares = []
        for _ in range(DRAWS):
            initialize(like, rule)
            squares.append(float(like.weight.detach().square().mean()))
        wanted = sum(squares) / DRAWS
        if wanted == 0:
            continue
        ratio = float(weight.square().mean()) / wanted
        limit = 1 + SIGMAS * math.sqrt(_excess(weight) / weight.numel() * (1 + 1 / DRAWS))
        if max(ratio, 1 / max(ratio, 1e-9)) / limit >= worst / bound:
            worst, bound = max(ratio, 1 / max(ratio, 1e-9)), limit
            where = f"{name}: {ratio:.3g} times the variance of {rule}"
    return (worst, bound, where) if bound > 1 else None


LAWS = (weights_do_not_amplify, weights_have_no_mean, units_differ, variance_is_that_of_the_rule)


def check_initialization(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of initialization in any module with linear layers or convolutions, before training."""
    if not list(_weights(module)):
        raise UsageError(f"{type(module).__name__} has no linear layer or convolution whose weights could be measured")
    return outcomes(LAWS, module, batch)


def recognize_initialization(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Any plain module with linear layers or convolutions is held to these laws, which need no input."""
    return (batch or Batch(torch.zeros(1, 1))) if is_plain(module) and any(_weights(module)) else None


def _weights(module: nn.Module) -> Iterator[tuple[str, Tensor, float]]:
    """The weights of all layers that sum, outputs first, each with its name and the square of its gain."""
    layers = list(module.named_modules())
    for i, (name, layer) in enumerate(layers):
        if isinstance(layer, SUMS) and layer.weight.numel() >= 16:
            groups = getattr(layer, "groups", 1)
            weight = layer.weight.detach().double()
            weight = weight.transpose(0, 1) if isinstance(layer, TRANSPOSED) and groups == 1 else weight
            following = next((part for _, part in layers[i + 1 :] if not list(part.children())), None)
            gain = GAINS.get(type(following), LARGEST) if following is not None else LARGEST
            yield name or type(layer).__name__, weight, gain


def _excess(weight: Tensor) -> float:
    """The variance of a squared weight relative to its squared mean: 2 for a normal distribution."""
    square = weight.square()
    return float(square.var() / square.mean().square().clamp_min(1e-30))
