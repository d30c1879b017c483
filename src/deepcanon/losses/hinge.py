"""Hinge loss of maximum-margin classifiers."""

from __future__ import annotations

from torch import Tensor


def hinge(scores: Tensor, y: Tensor) -> Tensor:
    r"""The mean hinge loss, which is 0 where the score of the true class exceeds all others by a margin of 1.

    .. math:: \ell = \max\Bigl(0,\; 1 + \max_{k \ne y} s_k - s_y\Bigr)

    For two classes with a single score :math:`s`, (B,), it is :math:`\max(0, 1 - \tilde y s)` with :math:`\tilde y =
    \pm 1`. It is an upper bound of the 0-1 loss. (``torch.nn.MultiMarginLoss`` sums over all other classes instead of
    taking the largest, and divides by the number of classes.)

    References:
        | On the algorithmic implementation of multiclass kernel-based vector machines (Crammer and Singer, 2001),
          https://www.jmlr.org/papers/v2/crammer01a.html

    Arguments:
        scores: The scores of the classes, (B, classes), or of the second of two classes, (B,).
        y: The classes, (B,).

    >>> import torch
    >>> hinge(torch.tensor([[3.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1]))
    tensor(0.7500)
    """
    if scores.ndim == 1:
        return (1 - (2 * y - 1) * scores).clamp_min(0).mean()
    true = scores.gather(1, y.unsqueeze(1))
    others = scores.scatter(1, y.unsqueeze(1), -float("inf")).amax(1, keepdim=True)
    return (1 + others - true).clamp_min(0).mean()
