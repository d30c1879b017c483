"""Full precision (float32) for numbers that half precision would spoil, under mixed precision."""

from __future__ import annotations

import torch
from torch import Tensor


def full(x: Tensor) -> Tensor:
    """``x`` in float32 if it comes in half precision, else as it is: sums of many terms lose too much in bfloat16.

    >>> full(torch.ones(1, dtype=torch.bfloat16)).dtype, full(torch.ones(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
