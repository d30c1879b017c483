"""Quadratic cost."""

from __future__ import annotations

from torch import Tensor


def quadratic_cost(outputs: Tensor, targets: Tensor) -> Tensor:
    r"""Half of the squared distance between outputs and targets, as a mean over the examples.

    .. math:: \frac1{2n} \sum_x \lVert y(x) - a(x) \rVert^2

    At a saturated logistic unit its gradient vanishes, where that of the cross-entropy does not.

    References:
        | Learning representations by back-propagating errors (Rumelhart et al., 1986),
          https://doi.org/10.1038/323533a0

    >>> import torch
    >>> quadratic_cost(torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    return 0.5 * (outputs - targets).square().flatten(1).sum(1).mean()
