"""Half precision is widened, full precision is left alone."""

import torch

from deepcanon.core.precision import full


def test_only_half_precision_changes() -> None:
    for half in (torch.bfloat16, torch.float16):
        assert full(torch.ones(2, dtype=half)).dtype == torch.float32
    for dtype in (torch.float32, torch.float64):
        x = torch.ones(2, dtype=dtype)
        assert full(x) is x
