"""Many networks of one architecture trained at once (vectorized), each on its own examples and at its own rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from deepcanon.core import Model
from deepcanon.optim import optimizer


class SideBySide:
    """R networks of one architecture that are trained at once, and only share the time it takes to call torch.

    Arguments:
        models: The networks, from whose weights the training begins; they stay as they are.
        optimizer: An optimizer by name that is elementwise and whose steps are proportional to the rate: SGD, Adam.
        rates: The learning rate of each network.
    """

    def __init__(self, models: Sequence[Model[Any]], name: str, rates: Sequence[float]) -> None:
        self.models = models
        parameters, self.buffers = stack_module_state(list(models))
        self.leaves = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
        self.optimizer = optimizer(name, list(self.leaves.values()), 1.0)
        self.rates = torch.tensor(rates)
        self.decay = 1.0
        """The factor of all rates by the schedule."""

    def step(self, loss: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """A step on the loss (R,) of the outputs (R, B, ...) at the inputs (R, B, ...); the loss before the step."""
        self.models[0].train()
        losses = loss(vmap(self._one, (0, 0, 0), randomness="different")(self.leaves, self.buffers, x))
        self.optimizer.zero_grad()
        losses.sum().backward()
        before = [leaf.detach().clone() for leaf in self.leaves.values()]
        self.optimizer.step()
        with torch.no_grad():  # the step was taken at the rate 1
            for leaf, start in zip(self.leaves.values(), before, strict=True):
                rates = self.rates.to(leaf).view(-1, *[1] * (leaf.ndim - 1))
                leaf.copy_(start + self.decay * rates * (leaf - start))
        return losses.detach()

    def anneal(self, step: int, steps: int) -> None:
        """Let all rates follow a cosine from their first value to zero."""
        self.decay = (1 + math.cos(math.pi * step / steps)) / 2

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """The outputs of each network at common inputs (m, ...): (R, m, ...)."""
        self.models[0].eval()
        return vmap(self._one, (0, 0, None))(self.leaves, self.buffers, x)

    def trained(self, number: int) -> Model[Any]:
        """One of the networks with the weights it has now."""
        self.models[number].load_state_dict({name: leaf[number].detach() for name, leaf in self.leaves.items()}, False)
        return self.models[number]

    def _one(self, own: Mapping[str, Tensor], fixed: Mapping[str, Tensor], at: Tensor) -> Tensor:
        output: Tensor = functional_call(self.models[0], (dict(own), dict(fixed)), (at,))
        return output


def fit_side_by_side(
    models: Sequence[Model[Any]], x: Tensor, y: Tensor, *, steps: int, rates: Sequence[float], cosine: bool = False
) -> SideBySide:
    """Fit R networks to the targets (R, n, targets) of n common inputs by Adam on the squared error of all examples.

    The rates stay as they are, or fall to zero along a ``cosine``.
    """
    networks = SideBySide(models, "adam", rates)
    every = x.expand(len(models), *x.shape)
    for step in range(steps):
        if cosine:
            networks.anneal(step, steps)
        networks.step(lambda outputs: (outputs - y).square().sum(-1).mean(-1), every)
    return networks
