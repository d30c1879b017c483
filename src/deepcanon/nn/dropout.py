"""Dropout in its original form: units are dropped in training and scaled down in evaluation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError


class PlainDropout(nn.Module):
    r"""Dropout in its original, not inverted form: evaluation multiplies by the probability to keep a unit.

    .. math:: y = m \odot x \ \text{in training}, \quad m_i \sim \mathrm{Bernoulli}(1 - p), \qquad
        y = (1 - p)\, x \ \text{in evaluation}

    torch's own ``nn.Dropout`` is inverted dropout: it divides by :math:`1 - p` in training and is the identity in
    evaluation. Followed by a linear layer the two differ in the scale of its weights only.

    References:
        | Dropout: a simple way to prevent neural networks from overfitting (Srivastava et al., 2014),
          https://jmlr.org/papers/v15/srivastava14a.html

    Arguments:
        p: The probability to drop a unit.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise UsageError(f"p is the probability to drop a unit, from 0 to below 1 (got {p})")
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def forward(self, x: Tensor) -> Tensor:
        if self.p == 0:
            return x
        return x * torch.empty_like(x).bernoulli_(1 - self.p) if self.training else x * (1 - self.p)
