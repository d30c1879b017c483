"""Operations whose gradient is written out by hand: when they may stand for what autograd would record."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor


def can_fuse(x: Tensor) -> bool:
    """Whether several operations may be one of autograd here: in plain training, not under what looks inside of it."""
    kind = x.device.type
    mixed = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    watched = mixed or x.is_meta or torch.compiler.is_compiling() or is_functorch_wrapped_tensor(x)
    return torch.is_grad_enabled() and not watched
