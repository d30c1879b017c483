"""Several layers of latents: the engine of the hierarchical variational autoencoders."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from deepcanon.core import Batch, Terms, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.precision import full
from deepcanon.distributions.chained import Chained
from deepcanon.distributions.likelihoods import LikelihoodName
from deepcanon.models.variational._encoder_decoder import VariationalAutoencoder, diagonal_gaussian
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense, side_by_side


class Hierarchy(VariationalAutoencoder[Batch]):
    """A variational autoencoder whose latent is a chain of layers, the lowest first, side by side in one z.

    The posterior is drawn from the data upwards, the prior from the top downwards, each layer a diagonal Gaussian. In a
    ``markov`` hierarchy a layer sees its neighbor alone; else the prior of a layer sees all layers above it, the
    posterior the data and all layers below, and the decoder all of them. Both kinds are built alike, so that their
    constructor stands here.
    """

    markov: ClassVar[bool]

    def __init__(
        self,
        features: int,
        latents: tuple[int, ...] = (8, 4),
        hidden: tuple[int, ...] = (128,),
        likelihood: LikelihoodName = "gaussian",
        activation: Activation = "relu",
        convolutions: tuple[int, ...] = (),
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> None:
        if len(latents) < 2:
            raise UsageError(
                f"a hierarchy has two layers of latents or more (got latents={latents}); with one take vae"
            )
        for size in latents:
            at_least(1, latents=size)
        super().__init__(
            features, latents[0] if self.markov else sum(latents), hidden, likelihood, activation,
            posterior=2 * latents[0], convolutions=convolutions, image=(channels, height, width),
        )  # fmt: skip
        self.layers, self.latent, markov = latents, sum(latents), self.markov
        units = self.encoder[0].get_parameter("weight").shape[1]  # what is seen of the data
        below = [latents[i - 1] if markov else units + sum(latents[:i]) for i in range(1, len(latents))]
        above = [latents[i + 1] if markov else sum(latents[i + 1 :]) for i in range(len(latents) - 1)]
        net = partial(dense, hidden=hidden, activation=activation)
        self.up = nn.ModuleList(net(size, 2 * numbers) for size, numbers in zip(below, latents[1:], strict=True))
        self.down = nn.ModuleList(net(size, 2 * numbers) for size, numbers in zip(above, latents[:-1], strict=True))
        (*_, last) = self.encoder.children()
        with torch.no_grad():  # the lowest scales are 1 at first: far-off examples would make chains of scales overflow
            for parameter in last.parameters():
                parameter[latents[0] :] = 0

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latents=(1, 1), hidden=(8,)), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        reconstruction, kl = self.bound(batch.x)
        return {"reconstruction": reconstruction.mean(), "kl": kl.mean()}

    def encode(self, x: Tensor) -> Distribution:
        """The approximate posterior of all layers, drawn from the lowest to the top."""
        rows = self._staged(x)

        def rise(net: nn.Module, z: Tensor) -> Distribution:
            return diagonal_gaussian(net(z) if self.markov else side_by_side(net, rows, z))

        steps = [partial(rise, net) for net in self.up]
        lowest = diagonal_gaussian(full(self.encoder(rows)))
        return Chained(lowest, steps, self.layers, memory=not self.markov)

    def prior(self) -> Distribution:
        """The prior of all layers, drawn from the top to the lowest."""

        def fall(net: nn.Module, z: Tensor) -> Distribution:
            return diagonal_gaussian(net(z))

        top = diagonal_gaussian(next(self.parameters()).new_zeros(2 * self.layers[-1]))
        steps = [partial(fall, net) for net in reversed(self.down)]
        return Chained(top, steps, self.layers[::-1], backward=True, memory=not self.markov)

    def decode(self, z: Tensor) -> Distribution:
        """The likelihood p(x | z), of a Markov hierarchy given the lowest layer alone."""
        return super().decode(self._seen(z))

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction from the posterior mean of z, flat: (B, features)."""
        reconstruction: Tensor = self.decoder(self._seen(self.encode(x).mean))
        return reconstruction

    def _seen(self, z: Tensor) -> Tensor:
        return z[..., : self.layers[0]] if self.markov else z
