"""Classes as patterns of bits: m outputs tell 2^m classes apart."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import DataError


def to_bits(classes: Tensor, bits: int) -> Tensor:
    """Each class as the digits of its number in base 2, (B, bits), the highest first: targets of a Bernoulli head.

    It takes fewer outputs than one for each class, but which class has which pattern matters: every output must tell
    those with a 1 from those with a 0. ``torch.nn.functional.one_hot`` is the code where nothing is to be chosen.

    >>> to_bits(torch.tensor([0, 5]), 3)
    tensor([[0., 0., 0.],
            [1., 0., 1.]])
    """
    if len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < 2**bits:
        raise DataError(f"{bits} bits tell {2**bits} classes apart; got class {int(classes.max())}")
    return (classes.unsqueeze(-1) >> _places(bits, classes)).bitwise_and(1).float()


def from_bits(code: Tensor) -> Tensor:
    """The class of each pattern, (B,).

    >>> from_bits(torch.tensor([[0.0, 1.0, 1.0]]))
    tensor([3])
    """
    return (code.long() << _places(code.shape[-1], code)).sum(-1)


def _places(bits: int, like: Tensor) -> Tensor:
    return torch.arange(bits - 1, -1, -1, device=like.device)
