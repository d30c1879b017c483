"""Autoregressive models of tables: exact likelihood by the chain rule, ancestral sampling value by value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Generator, Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from deepcanon.core import DataError, Density, Support
from deepcanon.core.checks import flat
from deepcanon.core.precision import full
from deepcanon.core.turn import B


class Autoregressive(Density[B]):
    r"""An autoregressive model of binary data or categories: the product of the conditionals of each value.

    A leaf gives the number of ``features`` and the ``logits`` of all values; those of :math:`x_d` must depend on the
    values before it only, in the order of the data unless ``drawing_order`` gives another. With two ``levels`` values
    are zeros and ones, with more they are categories, 0 to ``levels - 1``. A conditional leaf reads its context by
    ``_context(n)``.

    .. math:: \log p(x) = \sum_{d=1}^D \log p(x_d \mid x_{<d}) \qquad (1)

    References:
        | Modeling High-Dimensional Discrete Data with Multi-Layer Neural Networks (Bengio and Bengio, 2000),
          https://papers.nips.cc/paper/1999/hash/e6384711491713d29bc63fc5eeb5ba4f-Abstract.html
    """

    features: int
    levels: int = 2

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """The logit of each value given those before it, (B, features); of categories, (B, features, levels)."""

    def logits_of(self, x: Tensor, d: int) -> Tensor:
        """The logit of the value at position d, (B,), or (B, levels); overridden where it takes less than all do."""
        return self.logits(x)[:, d]

    def drawing_order(self) -> Iterable[int]:
        """The positions of the values in the order in which they are drawn."""
        return range(self.features)

    @property
    def support(self) -> Support:
        return "binary" if self.levels == 2 else "categorical"

    def check_values(self, x: Tensor) -> None:
        super().check_values(x)
        if x.numel() and not x.is_meta and x.max() >= self.levels:
            raise DataError(
                f"{self.name()} was built for the categories 0 to {self.levels - 1}, but the data go up to "
                f"{x.max():.3g}; give it as many levels as the data have"
            )

    def _log_prob(self, x: Tensor) -> Tensor:
        x = flat(x, self.features)
        logits = full(self.logits(x))
        if self.levels == 2:
            return -binary_cross_entropy_with_logits(logits, x.to(logits.dtype), reduction="none").sum(-1)  # eq. (1)
        return -cross_entropy(logits.movedim(-1, 1), x.long(), reduction="none").sum(-1)  # eq. (1)

    def forward(self, x: Tensor) -> Tensor:
        """The probability of each value to be 1 given those before it, (B, features); of categories, of each level."""
        logits = self.logits(flat(x, self.features))
        return logits.sigmoid() if self.levels == 2 else logits.softmax(-1)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        like = next(self.parameters())
        x = torch.zeros(n, self.features, device=like.device, dtype=like.dtype)
        uniform = torch.rand(n, self.features, generator=generator, device=like.device, dtype=like.dtype)
        for d in self.drawing_order():
            logits = full(self.logits_of(x, d))
            if self.levels == 2:
                x[:, d] = (uniform[:, d] < logits.sigmoid()).to(x.dtype)
            else:  # the first level whose cumulated probability exceeds the uniform number
                shares = logits.softmax(-1)
                x[:, d] = (uniform[:, d : d + 1] >= shares.cumsum(-1)[:, :-1]).sum(-1).to(x.dtype)
        return x
