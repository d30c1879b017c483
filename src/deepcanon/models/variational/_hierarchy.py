"""Several layers of latents: the engine of the hierarchical variational autoencoders."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from deepcanon.core import Batch, Terms, UsageError
from deepcanon.core.checks import at_least
from deepcanon.distributions.chained import Chained
from deepcanon.distributions.likelihoods import LikelihoodName
from deepcanon.models.variational._encoder_decoder import VariationalAutoencoder, diagonal_gaussian
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense


class Hierarchy(VariationalAutoencoder[Batch]):
    """A variational autoencoder whose latent is a chain of layers, the lowest first, side by side in one z.

    The posterior is drawn from the data upwards, the prior from the top downwards, each layer a diagonal Gaussian. In a
    ``markov`` hierarchy a layer sees its neighbor alone; else the prior of a layer sees all layers above it, the
    posterior the data and all layers below, and the decoder all of them.
    """

    def __init__(
        self,
        features: int,
        layers: tuple[int, ...],
        hidden: tuple[int, ...],
        likelihood: LikelihoodName,
        activation: Activation,
        *,
        markov: bool,
    ) -> None:
        if len(layers) < 2:
            raise UsageError(f"a hierarchy has two layers of latents or more (got latents={layers}); with one take vae")
        for width in layers:
            at_least(1, latents=width)
        seen = layers[0] if markov else sum(layers)
        super().__init__(features, seen, hidden, likelihood, activation, posterior=2 * layers[0])
        self.layers, self.markov, self.latent = layers, markov, sum(layers)
        below = [layers[i - 1] if markov else features + sum(layers[:i]) for i in range(1, len(layers))]
        above = [layers[i + 1] if markov else sum(layers[i + 1 :]) for i in range(len(layers) - 1)]
        net = partial(dense, hidden=hidden, activation=activation)
        self.up = nn.ModuleList(net(size, 2 * width) for size, width in zip(below, layers[1:], strict=True))
        self.down = nn.ModuleList(net(size, 2 * width) for size, width in zip(above, layers[:-1], strict=True))

    def loss(self, batch: Batch) -> Terms:
        reconstruction, kl = self.bound(batch.x)
        return {"reconstruction": reconstruction.mean(), "kl": kl.mean()}

    def encode(self, x: Tensor) -> Distribution:
        """The approximate posterior of all layers, drawn from the lowest to the top."""
        rows = x.flatten(1)

        def rise(net: nn.Module, z: Tensor) -> Distribution:
            given = z if self.markov else torch.cat([rows.expand(*z.shape[:-1], -1), z], -1)
            return diagonal_gaussian(net(given))

        steps = [partial(rise, net) for net in self.up]
        return Chained(diagonal_gaussian(self._encoded(x)), steps, self.layers, memory=not self.markov)

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
