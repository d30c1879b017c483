"""A tiny autoencoder, which the examples of methods wrap that work in the code of one."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core.batch import Batch
from deepcanon.core.model import Model
from deepcanon.core.turn import Terms


class ToyAutoencoder(Model[Batch]):
    r"""A linear autoencoder, for methods to wrap in their examples.

    .. math:: \lVert x - (V W x + c) \rVert^2 \qquad (1)

    References:
        | Neural networks and principal component analysis (Baldi and Hornik, 1989),
          https://doi.org/10.1016/0893-6080(89)90014-2

    Arguments:
        features: The number of features of an example.
        latent: The number of values of its code.
    """

    def __init__(self, features: int, latent: int) -> None:
        super().__init__()
        self.features, self.latent = features, latent
        self.encoder = nn.Linear(features, latent, bias=False)
        self.decoder = nn.Linear(latent, features)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2), Batch(torch.cat([x, x @ torch.tensor([[1.0, 2.0], [-1.0, 0.5]])], 1))

    def encode(self, x: Tensor) -> Tensor:
        code: Tensor = self.encoder(x.flatten(1))
        return code

    def decode(self, z: Tensor) -> Tensor:
        decoded: Tensor = self.decoder(z)
        return decoded

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction, flat: (B, features)."""
        return self.decode(self.encode(x))

    def reconstruct(self, x: Tensor) -> Tensor:
        """The reconstruction of each example, in the shape of ``x``."""
        return self(x).view_as(x)  # type: ignore[no-any-return]

    def loss(self, batch: Batch) -> Terms:
        gap = self(batch.x) - batch.x.flatten(1)
        return {"reconstruction": gap.square().sum(1).mean()}  # eq. (1)
