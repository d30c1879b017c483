"""Exponential moving average (EMA) of the weights of a network, kept as buffers."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


class Averaged(nn.Module):
    r"""An exponential moving average (EMA) of a network: a copy of it whose weights are buffers, not parameters.

    Each update is :math:`\bar\theta \leftarrow d_n \bar\theta + (1 - d_n) \theta`. After n updates the decay is
    :math:`d_n = \min(d, (1 + n) / (10 + n))`, so that the random initial weights are soon forgotten.

    References:
        | Acceleration of stochastic approximation by averaging (Polyak and Juditsky, 1992),
          https://doi.org/10.1137/0330046

    >>> net = nn.Linear(1, 1)
    >>> len(list(Averaged(net, 0.9).parameters()))
    0
    """

    updates: Tensor

    def __init__(self, net: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.net = copy.deepcopy(net)
        for module in self.net.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                delattr(module, name)
                module.register_buffer(name, parameter.detach().clone())
        self.register_buffer("updates", torch.zeros(()))

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        """Move the average towards the weights of ``net``."""
        share = 1 - torch.clamp((1 + self.updates) / (10 + self.updates), max=self.decay)
        self.updates += 1
        own = dict(self.net.named_buffers())
        average, live = zip(*((own[name], parameter) for name, parameter in net.named_parameters()), strict=True)
        torch._foreach_lerp_(average, live, [share] * len(average))  # a tensor, so that nothing waits for its value

    def forward(self, *inputs: Tensor) -> Tensor:
        output: Tensor = self.net(*inputs)
        return output
