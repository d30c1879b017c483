"""Autoregressive models of binary data: exact likelihood by the chain rule, ancestral sampling value by value."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Generator, Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from deepcanon.core import Batch, Density, Support
from deepcanon.core.checks import flat
from deepcanon.core.precision import full


class Autoregressive(Density[Batch]):
    r"""An autoregressive model of binary data: the product of the conditionals of each value given those before it.

    A leaf gives the number of ``features`` and the ``logits`` of all values; the logit of :math:`x_d` must depend on
    :math:`x_1 \dots x_{d-1}` only.

    .. math:: \log p(x) = \sum_{d=1}^D \log p(x_d \mid x_{<d}) \qquad (1)

    References:
        | Modeling High-Dimensional Discrete Data with Multi-Layer Neural Networks (Bengio and Bengio, 2000),
          https://papers.nips.cc/paper/1999/hash/e6384711491713d29bc63fc5eeb5ba4f-Abstract.html
    """

    features: int

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """The logit of each value given those before it, (B, features)."""

    @property
    def support(self) -> Support:
        return "binary"

    def _log_prob(self, x: Tensor) -> Tensor:
        x = flat(x, self.features)
        return -binary_cross_entropy_with_logits(full(self.logits(x)), x, reduction="none").sum(-1)  # eq. (1)

    def forward(self, x: Tensor) -> Tensor:
        """The probability of each value to be 1 given those before it, (B, features)."""
        return self.logits(x).sigmoid()

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        like = next(self.parameters())
        x = torch.zeros(n, self.features, device=like.device, dtype=like.dtype)
        uniform = torch.rand(n, self.features, generator=generator, device=like.device, dtype=like.dtype)
        for d in range(self.features):
            x[:, d] = (uniform[:, d] < self.logits(x)[:, d].sigmoid()).to(x.dtype)
        return x
