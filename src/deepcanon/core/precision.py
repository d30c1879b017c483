"""Full precision (float32) for numbers that half precision would spoil, under mixed precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def full(x: Tensor) -> Tensor:
    """``x`` in float32 if it comes in half precision, else as it is: sums of many terms lose too much in bfloat16.

    >>> full(torch.ones(1, dtype=torch.bfloat16)).dtype, full(torch.ones(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def in_full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """A context without mixed precision on the device of ``x``, for maps whose inverse must be exact.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16), in_full_precision(torch.ones(1)):
    ...     print((torch.ones(1, 1) @ torch.ones(1, 1)).dtype)
    torch.float32
    """
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
