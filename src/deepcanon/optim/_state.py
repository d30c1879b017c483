"""What optimizers of our own share: the closure that is asked for gradients, and what is kept for each weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def asked(closure: Callable[[], Any] | None) -> Any:
    """What the closure gives; it needs gradients, which a step itself does not."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def kept(optimizer: torch.optim.Optimizer, weight: Tensor, name: str) -> Tensor:
    """What the optimizer keeps under this name for a weight; zeros at first."""
    state: dict[str, Tensor] = optimizer.state[weight]
    if name not in state:
        state[name] = torch.zeros_like(weight, memory_format=torch.preserve_format)
    return state[name]
