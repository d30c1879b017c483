"""A linear layer that goes back the way of another one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Transposed(nn.Module):
    """The transposed weight of another linear layer, with a bias of its own.

    The weight stays the other layer's parameter, and its gradient is the sum over both uses.

    >>> layer = nn.Linear(3, 2)
    >>> [name for name, _ in Transposed(layer).named_parameters()]
    ['bias']
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._layer = (layer,)  # in a tuple, so that the layer does not become a part of this one too
        self.bias = nn.Parameter(torch.zeros(layer.in_features))

    def forward(self, x: Tensor) -> Tensor:
        (layer,) = self._layer
        return F.linear(x, layer.weight.T, self.bias)


def transposed(net: nn.Sequential) -> nn.Sequential:
    """The layers of ``net`` in reverse, the linear ones transposed: a way back from its outputs to its inputs.

    >>> back = transposed(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
    >>> back(torch.zeros(1, 2)).shape
    torch.Size([1, 4])
    """
    return nn.Sequential(*(Transposed(layer) if isinstance(layer, nn.Linear) else layer for layer in reversed(net)))
