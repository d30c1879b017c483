"""Scores of probabilistic forecasts: the continuous ranked probability score (CRPS) and the quantile loss."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import UsageError


def crps(samples: Tensor, x: Tensor) -> Tensor:
    r"""The continuous ranked probability score of a sample, (S, ...), at what came true, (...): lower is better.

    .. math:: \mathrm{CRPS}(p, x) = \int (P(X \le u) - [x \le u])^2 du = E |X - x| - \tfrac12 E |X - X'|

    It has the unit of x, and of a forecast that is certain it is the absolute error. The estimate is unbiased: X and X'
    are different members of the sample.

    References:
        | Strictly Proper Scoring Rules, Prediction, and Estimation (Gneiting and Raftery, 2007),
          https://doi.org/10.1198/016214506000001437

    >>> crps(torch.tensor([0.0, 2.0]), torch.tensor(5.0))
    tensor(3.)
    """
    count = len(samples)
    if count < 2:
        raise UsageError(f"the CRPS of a sample needs at least 2 members, got {count}")
    ranks = torch.arange(count, device=samples.device, dtype=samples.dtype).view(-1, *[1] * x.ndim)
    # In order, the member of rank r lies above r others and below count - 1 - r of them.
    spread = (samples.sort(0).values * (2 * ranks - (count - 1))).sum(0) / (count * (count - 1))
    return (samples - x).abs().mean(0) - spread


def quantile_loss(quantile: Tensor, x: Tensor, level: float) -> Tensor:
    r"""The quantile loss (pinball loss), which is least in the mean where ``quantile`` is the one of this level.

    .. math:: \rho_q(u) = \max(q u, (q - 1) u), \qquad u = x - \hat x_q

    The mean of :math:`2 \rho_q` over all levels from 0 to 1 is the CRPS.

    References:
        | Regression Quantiles (Koenker and Bassett, 1978), https://doi.org/10.2307/1913643

    >>> quantile_loss(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 2.0]), 0.9)
    tensor([0.9000, 0.1000])
    """
    if not 0 < level < 1:
        raise UsageError(f"the level of a quantile lies between 0 and 1 (got {level})")
    error = x - quantile
    return torch.maximum(level * error, (level - 1) * error)
