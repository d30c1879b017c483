"""Output codes of classes: a pattern of zeros and ones for each."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from deepcanon.core import DataError
from deepcanon.core.checks import one_of

Code = Literal["one-hot", "binary"]
CODES: tuple[Code, ...] = ("one-hot", "binary")

UNDECIDED = -1
"""In place of a class: outputs that are the code of none."""


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


def class_codes(classes: int, code: Code = "one-hot") -> Tensor:
    """The code of every class, (classes, outputs): an output for each class, or as few as have enough patterns.

    Two classes have a single output in either code.

    >>> class_codes(3)
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    >>> class_codes(3, "binary")
    tensor([[0., 0.],
            [0., 1.],
            [1., 0.]])
    """
    one_of(CODES, code=code)
    if code == "one-hot" and classes > 2:
        return torch.eye(classes)
    return to_bits(torch.arange(classes), max(1, (classes - 1).bit_length()))


def decoded(outputs: Tensor, codes: Tensor) -> Tensor:
    """The class whose code the outputs are, (B,), or ``UNDECIDED``: of a one-hot code where none or several are 1.

    >>> decoded(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), class_codes(3))
    tensor([ 1, -1, -1])
    """
    same = (outputs.unsqueeze(1) == codes.to(outputs)).all(-1)
    return torch.where(same.any(-1), same.int().argmax(-1), UNDECIDED)


def _shifts(bits: int, like: Tensor) -> Tensor:
    return torch.arange(bits - 1, -1, -1, device=like.device)
