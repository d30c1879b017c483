"""SGD with momentum, the learning rate inside the velocity, as Polyak, Nesterov and Sutskever write it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from deepcanon.optim._state import buffer, evaluated


class Momentum(torch.optim.Optimizer):
    r"""Gradient descent with classical or Nesterov momentum, with the learning rate inside the velocity.

    .. math:: v \leftarrow \gamma v - \epsilon_t \nabla J(\theta + \gamma v), \qquad \theta \leftarrow \theta + v

    That is Nesterov's form; without ``nesterov`` the gradient is taken at :math:`\theta`. Torch's ``SGD`` multiplies
    the whole velocity by the learning rate of the current step instead: the same path at a constant learning rate,
    another one under a schedule. As there, with ``nesterov`` the parameters hold the look-ahead point :math:`\theta +
    \gamma v`, where the next gradient is taken.

    References:
        | A method for solving a convex programming problem with convergence rate O(1/k^2) (Nesterov, 1983)
        | On the importance of initialization and momentum in deep learning (Sutskever et al., 2013),
          https://proceedings.mlr.press/v28/sutskever13.html

    Arguments:
        params: The parameters, or groups of them.
        lr: The learning rate :math:`\epsilon`.
        momentum: The momentum coefficient :math:`\gamma`, the share of the velocity that is kept.
        nesterov: Whether the gradient is taken at the look-ahead point.
        weight_decay: The coefficient of the L2 penalty, whose gradient is added.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        momentum: float = 0.9,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is the share of the velocity that is kept, from 0 to below 1 (got {momentum})")
        if weight_decay < 0:
            raise ValueError(f"weight_decay is at least 0 (got {weight_decay})")
        super().__init__(params, {"lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = evaluated(closure)
        for group in self.param_groups:
            gamma = group["momentum"]
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            gradients = [weight.grad for weight in weights]
            if group["weight_decay"]:
                gradients = list(torch._foreach_add(gradients, weights, alpha=group["weight_decay"]))
            velocities = [buffer(self, weight, "velocity") for weight in weights]
            if group["nesterov"]:  # back from theta + gamma v
                torch._foreach_add_(weights, velocities, alpha=-gamma)
            torch._foreach_mul_(velocities, gamma)
            torch._foreach_add_(velocities, gradients, alpha=-group["lr"])
            torch._foreach_add_(weights, velocities, alpha=1 + gamma if group["nesterov"] else 1)
        return loss
