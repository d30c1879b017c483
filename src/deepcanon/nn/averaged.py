"""A network's weights averaged over its training, kept as buffers."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


class Averaged(nn.Module):
    r"""A copy of a network whose weights follow the moving average :math:`\bar\theta \leftarrow d \bar\theta + (1 - d)
    \theta` and are no parameters.

    While few updates have been made the decay is smaller, :math:`d_n = \min(d, (1 + n) / (10 + n))`, so that the first
    weights, which say nothing, are soon forgotten.

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
        """Move towards the weights of ``net``."""
        share = 1 - torch.clamp((1 + self.updates) / (10 + self.updates), max=self.decay)
        self.updates += 1
        own = dict(self.net.named_buffers())
        average, live = zip(*((own[name], parameter) for name, parameter in net.named_parameters()), strict=True)
        torch._foreach_lerp_(average, live, [share] * len(average))  # a tensor, whose value nobody has to wait for

    def forward(self, *inputs: Tensor) -> Tensor:
        output: Tensor = self.net(*inputs)
        return output
