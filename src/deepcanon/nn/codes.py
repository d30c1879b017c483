"""Binary codes of classes: m outputs for 2^m classes."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import DataError


def to_bits(classes: Tensor, bits: int) -> Tensor:
    """The binary code of each class, (B, bits), the highest bit first: targets of a Bernoulli head.

    It takes fewer outputs than a one-hot code, but which class has which code matters: every output must separate the
    classes with a 1 from those with a 0. ``torch.nn.functional.one_hot`` is the code without such a choice.

    >>> to_bits(torch.tensor([0, 5]), 3)
    tensor([[0., 0., 0.],
            [1., 0., 1.]])
    """
    if len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < 2**bits:
        raise DataError(f"{bits} bits encode {2**bits} classes; got class {int(classes.max())}")
    return (classes.unsqueeze(-1) >> _shifts(bits, classes)).bitwise_and(1).float()


def from_bits(code: Tensor) -> Tensor:
    """The class of each binary code, (B,).

    >>> from_bits(torch.tensor([[0.0, 1.0, 1.0]]))
    tensor([3])
    """
    return (code.long() << _shifts(code.shape[-1], code)).sum(-1)


def _shifts(bits: int, like: Tensor) -> Tensor:
    return torch.arange(bits - 1, -1, -1, device=like.device)
