"""Kullback-Leibler divergence of predicted from given probabilities."""

from __future__ import annotations

from torch import Tensor


def kl_divergence(logits: Tensor, targets: Tensor) -> Tensor:
    r"""The divergence of predicted class probabilities from given ones, (..., classes), as a mean over examples.

    .. math:: D(q \,\|\, p) = \sum_y q(y) \log \frac{q(y)}{p(y)}, \qquad p = \operatorname{softmax}(\text{logits})

    It is the cross-entropy less the entropy of the targets, so that its least value is zero.

    References:
        | On Information and Sufficiency (Kullback and Leibler, 1951), https://doi.org/10.1214/aoms/1177729694

    >>> import torch
    >>> kl_divergence(torch.zeros(1, 4), torch.tensor([[1.0, 0.0, 0.0, 0.0]])).exp()
    tensor(4.)
    """
    return (targets.xlogy(targets) - targets * logits.log_softmax(-1)).sum(-1).mean()
