"""Unpooling that torch lacks, bed of nails; the others are its ``MaxUnpool2d`` and ``Upsample``."""

from __future__ import annotations

from torch import Tensor

from deepcanon.core.checks import at_least


def bed_of_nails(x: Tensor, factor: int) -> Tensor:
    """Bed-of-nails unpooling: every value in the first corner of a block of ``factor`` positions per axis, else zeros.

    ``x`` is (B, channels, positions ...). A transposed convolution with the stride ``factor`` is the convolution, with
    its kernel flipped, of this.

    >>> import torch
    >>> bed_of_nails(torch.tensor([[[1.0, 2.0]]]), 3)
    tensor([[[1., 0., 0., 2., 0., 0.]]])
    """
    at_least(1, factor=factor)
    bed = x.new_zeros(*x.shape[:2], *(factor * size for size in x.shape[2:]))
    bed[(slice(None),) * 2 + (slice(None, None, factor),) * (x.ndim - 2)] = x
    return bed
