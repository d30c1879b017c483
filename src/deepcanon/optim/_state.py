"""State of the optimizers of our own: the closure that computes gradients, and the buffers of each weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def evaluated(closure: Callable[[], Any] | None) -> Any:
    """The loss that the closure returns; it needs gradients enabled, which a step itself does not."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def buffer(optimizer: torch.optim.Optimizer, weight: Tensor, name: str) -> Tensor:
    """The state of this name that the optimizer keeps for a weight; zeros at first."""
    state: dict[str, Tensor] = optimizer.state[weight]
    if name not in state:
        state[name] = torch.zeros_like(weight, memory_format=torch.preserve_format)
    return state[name]
