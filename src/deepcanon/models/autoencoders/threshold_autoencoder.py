"""Autoencoder with binary threshold units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import torch
from torch import Tensor

from deepcanon.core import Absorb, Batch, DataError, Recipe, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.models.autoencoders._autoencoder import Coder

PRECISION = torch.float64

MOST = 12
"""The most units: their codes are all tried."""


class ThresholdAutoencoder(Coder):
    r"""An autoencoder with a binary code, which is 2-means for one unit and an additive code for several.

    Also known as: binary-threshold autoencoder, additive quantization with two codewords for each unit.

    .. math:: \min_{b, w, z} \frac1N \sum_n \Bigl\lVert x_n - b - \sum_{k=1}^m z_{nk} w_k \Bigr\rVert^2, \qquad
              z_{nk} \in \{0, 1\} \qquad (1)

    Of one unit the optimal code is a threshold unit, :math:`z = 1` where
    :math:`w^\top x > w^\top b + \tfrac12 \lVert w \rVert^2`: the hyperplane between the two centroids b and b + w. Of m
    units the :math:`2^m` centroids are the sums of subsets, and the code is that of the nearest one.

    .. math:: z_n = \arg\min_z \lVert x_n - b - W z \rVert^2 \qquad (2)

    An epoch alternates (2) with least squares for b and W given all codes, so that the error never rises. The sums of
    an epoch are accumulated batch by batch, and the size of the batches does not matter. As k-means it ends in a local
    minimum.

    .. math:: \begin{pmatrix} b & W \end{pmatrix} = \Bigl( \sum_n x_n \bar z_n^\top \Bigr)
              \Bigl( \sum_n \bar z_n \bar z_n^\top \Bigr)^{+}, \qquad \bar z = (1, z) \qquad (3)

    References:
        | Least squares quantization in PCM (Lloyd, 1982), https://doi.org/10.1109/TIT.1982.1056489
        | Additive Quantization for Extreme Vector Compression (Babenko and Lempitsky, 2014),
          https://doi.org/10.1109/CVPR.2014.124

    Arguments:
        features: The dimension of the data.
        latent: The number :math:`m` of threshold units.
    """

    recipe = Recipe(epochs=30, batch_size=1024)

    codes: Tensor
    weights: Tensor
    examples: Tensor
    seen: Tensor
    crossed: Tensor
    squared: Tensor

    def __init__(self, features: int, latent: int = 6) -> None:
        super().__init__()
        at_least(1, features=features, latent=latent)
        if latent > MOST:
            raise UsageError(f"all 2^latent codes are tried, so latent must be at most {MOST} (got {latent})")
        self.features, self.latent = features, latent
        every = torch.cartesian_prod(torch.ones(1), *[torch.tensor([0.0, 1.0])] * latent)
        self.register_buffer("codes", every.to(PRECISION))  # each with a leading one, (2^m, 1 + m)
        self.register_buffer("weights", torch.zeros(1 + latent, features, dtype=PRECISION))  # b, then the rows w
        self.register_buffer("examples", torch.tensor(0))
        # The sums of an epoch.
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("crossed", torch.zeros_like(self.weights))
        self.register_buffer("squared", torch.zeros(1 + latent, 1 + latent, dtype=PRECISION))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2), Batch(x)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Absorb(self.absorb)]

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Start with one unit after the other, each of which divides what those before it have left over."""
        rest = torch.cat([self._rows(batch.x) for batch in data])
        if len(rest) < 2:
            raise DataError(f"a binary code distinguishes examples, of which there must be 2 or more (got {len(rest)})")
        self.examples.fill_(len(rest))
        self._forget()
        self.weights.zero_()
        for unit in range(1, 1 + self.latent):
            off, on = _two_means(rest)
            nearest = torch.cdist(rest, torch.stack([off, on])).argmin(1)
            self.weights[0] += off
            self.weights[unit] = on - off
            rest = rest - torch.stack([off, on])[nearest]

    @torch.no_grad()
    def absorb(self, batch: Batch) -> Terms:
        """The codes of a batch, followed by least squares once every example was seen."""
        x = self._rows(batch.x)
        z = self._nearest(x)
        error = (x - z @ self.weights).square().sum(-1).mean()
        self.crossed += z.T @ x
        self.squared += z.T @ z
        self.seen += len(x)
        if self.seen >= self.examples:
            self.weights.copy_(torch.linalg.pinv(self.squared, hermitian=True) @ self.crossed)  # eq. (3)
            self._forget()
        return {"reconstruction": error.to(batch.x.dtype)}

    def loss(self, batch: Batch) -> Terms:
        return super().loss(batch)  # eq. (1)

    def encode(self, x: Tensor) -> Tensor:
        """The binary code of each example, (B, latent)."""
        return self._nearest(self._rows(x))[:, 1:].to(x.dtype)

    def decode(self, z: Tensor) -> Tensor:
        return self.weights[0].to(z.dtype) + z @ self.weights[1:].to(z.dtype)

    def _nearest(self, x: Tensor) -> Tensor:
        """The code of the nearest centroid with its leading one, (B, 1 + latent)."""
        return self.codes[torch.cdist(x, self.codes @ self.weights).argmin(1)]  # eq. (2)

    def _rows(self, x: Tensor) -> Tensor:
        return flat(x, self.features).to(PRECISION)

    def _forget(self) -> None:
        """Reset the sums of an epoch."""
        for total in (self.seen, self.crossed, self.squared):
            total.zero_()


def _two_means(x: Tensor, rounds: int = 20) -> Tensor:
    """The two centroids of Lloyd's algorithm, (2, features), from the halves on both sides of the mean.

    They are divided along the direction of largest variance.
    """
    centered = x - x.mean(0)
    side = centered @ torch.linalg.svd(centered, full_matrices=False)[2][0] > 0
    for _ in range(rounds):
        if side.all() or not side.any():  # all examples are the same
            break
        centroids = torch.stack([x[~side].mean(0), x[side].mean(0)])
        side = torch.cdist(x, centroids).argmin(1) == 1
    return centroids if 0 < int(side.sum()) < len(x) else x.mean(0).expand(2, -1)
