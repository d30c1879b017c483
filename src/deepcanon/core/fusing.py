"""Operations whose gradient is written out by hand: when they may stand for what autograd would record."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad


def can_fuse(*tensors: Tensor) -> bool:
    """Whether several operations may be one of autograd here: in plain training, not under what looks inside of it."""
    return torch.is_grad_enabled() and not is_watched(*tensors)


def is_watched(*tensors: Tensor) -> bool:
    """Whether operations on these tensors are traced, transformed or in mixed precision, so that each counts."""
    # neither a compiler nor a tracer could follow what comes below
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    kind = tensors[0].device.type
    mixed = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    dual = forward_ad._current_level >= 0
    return mixed or dual or any(tensor.is_meta or is_functorch_wrapped_tensor(tensor) for tensor in tensors)
