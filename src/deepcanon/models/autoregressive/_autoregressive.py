"""What autoregressive models of binary data share: an exact likelihood, and samples drawn value by value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Generator, Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from deepcanon.core import Batch, LikelihoodKind, Model, Support, Terms
from deepcanon.core.checks import flat, only_binary
from deepcanon.core.precision import full


class Autoregressive(Model[Batch]):
    r"""A distribution of D zeros and ones as a product of the distribution of each given those before it.

    A leaf gives the log-odds ``logits`` of all values, of which the one of :math:`x_d` must depend on
    :math:`x_1 \dots x_{d-1}` only, and the number of ``features``.

    .. math:: \log p(x) = \sum_{d=1}^D \log p(x_d \mid x_{<d}) \qquad (1)

    References:
        | Modeling High-Dimensional Discrete Data with Multi-Layer Neural Networks (Bengio and Bengio, 2000),
          https://papers.nips.cc/paper/1999/hash/e6384711491713d29bc63fc5eeb5ba4f-Abstract.html
    """

    likelihood_kind: LikelihoodKind = "exact"
    features: int

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """The log-odds of each value to be 1 given those before it, (B, features)."""

    @property
    def support(self) -> Support:
        return "binary"

    def prepare(self, data: Iterable[Batch]) -> None:
        """Refuse data that are not zeros and ones."""
        for batch in data:
            only_binary(batch.x, self.name())

    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x).mean()}

    def metrics(self, batch: Batch) -> Terms:
        """Nothing more: the loss is the exact ``nll`` already."""
        return {}

    def log_prob(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The exact log-probability of each example, (B,)."""
        only_binary(x, self.name())
        x = flat(x, self.features)
        return -binary_cross_entropy_with_logits(full(self.logits(x)), x, reduction="none").sum(-1)  # eq. (1)

    def forward(self, x: Tensor) -> Tensor:
        """The probability of each value to be 1 given those before it, (B, features)."""
        return self.logits(x).sigmoid()

    @torch.no_grad()
    def sample(self, n: int, *, context: Tensor | None = None, generator: Generator | None = None) -> Tensor:
        """Examples drawn from the model, (n, features): one value after the other."""
        like = next(self.parameters())
        x = torch.zeros(n, self.features, device=like.device, dtype=like.dtype)
        uniform = torch.rand(n, self.features, generator=generator, device=like.device, dtype=like.dtype)
        for d in range(self.features):
            x[:, d] = (uniform[:, d] < self.logits(x)[:, d].sigmoid()).to(x.dtype)
        return x
