"""Zero-one loss: the error rate of a classifier."""

from __future__ import annotations

from torch import Tensor


def zero_one(scores: Tensor, y: Tensor) -> Tensor:
    r"""The zero-one (0-1) loss: the fraction of examples whose class does not have the largest score.

    .. math:: \ell = \mathbb 1\bigl[\arg\max_k s_k \ne y\bigr]

    Its gradient is zero almost everywhere, which is why surrogate losses are minimized in its place.

    Arguments:
        scores: The scores of the classes, (B, classes), or of the second of two classes, (B,), predicted if above 0.
        y: The classes, (B,).

    >>> import torch
    >>> zero_one(torch.tensor([[3.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1]))
    tensor(0.5000)
    """
    predicted = (scores > 0).long() if scores.ndim == 1 else scores.argmax(1)
    return (predicted != y).to(scores.dtype).mean()
