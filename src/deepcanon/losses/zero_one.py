"""What a classifier gets wrong."""

from __future__ import annotations

from torch import Tensor


def zero_one(scores: Tensor, y: Tensor) -> Tensor:
    r"""The share of examples whose class is not the one with the largest score.

    .. math:: \ell = \mathbb 1\bigl[\arg\max_k s_k \ne y\bigr]

    It has no gradient worth having, which is why others are minimized in its place.

    Arguments:
        scores: The scores of the classes, (B, classes), or of the second of two classes, (B,), above 0 where it is it.
        y: The classes, (B,).

    >>> import torch
    >>> zero_one(torch.tensor([[3.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1]))
    tensor(0.5000)
    """
    said = (scores > 0).long() if scores.ndim == 1 else scores.argmax(1)
    return (said != y).to(scores.dtype).mean()
