"""Variational autoencoders: a network for the posterior and one for the likelihood."""

from __future__ import annotations

from torch import Tensor, nn
from torch.distributions import Distribution

from deepcanon.core import Recipe, Support
from deepcanon.core.checks import at_least, flat
from deepcanon.core.precision import full
from deepcanon.core.turn import B
from deepcanon.distributions.diagonal import Diagonal
from deepcanon.distributions.likelihoods import Likelihood, LikelihoodName, likelihood_layer
from deepcanon.models.variational._variational import Variational
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense
from deepcanon.nn.image_ends import ImageShape, image_ends


class Decoder(nn.Module):
    """The decoder: the map from a latent z to the mean of p(x | z)."""

    def __init__(self, net: nn.Module, likelihood: Likelihood) -> None:
        super().__init__()
        self.net = net
        self.likelihood = likelihood

    def forward(self, z: Tensor) -> Tensor:
        mean: Tensor = self.likelihood(self.net(z))
        return mean

    def distribution(self, z: Tensor) -> Distribution:
        return self.likelihood.distribution(self.net(z))


class VariationalAutoencoder(Variational[B]):
    """A latent-variable model whose encoder and decoder are fully connected or convolutional networks.

    The encoder has as many outputs as the posterior of a leaf needs numbers (``posterior``). With a context of so many
    numbers (``context``), both networks take it next to their own input. With ``convolutions``, an ``image`` goes
    through these before the encoder's fully connected layers, and after those of the decoder come the transposed ones.

    All leaves have one recipe. The first gradients, of latents that say nothing yet, are several times as large as the
    later ones: without clipping they count in Adam's averages for long, and at this rate convolutions do not recover.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine", epochs=100, clip="norm:10")

    def __init__(
        self,
        features: int,
        latent: int,
        hidden: tuple[int, ...],
        likelihood: LikelihoodName,
        activation: Activation,
        *,
        posterior: int,
        context: int = 0,
        convolutions: tuple[int, ...] = (),
        image: ImageShape = (None, None, None),
    ) -> None:
        super().__init__()
        at_least(1, features=features, latent=latent)
        self.features = features
        self.latent = latent
        self.stages, up, units = image_ends(features, image, convolutions, activation)
        self.encoder = dense(units + context, posterior, hidden, activation=activation)
        net = dense(latent + context, units, hidden[::-1], activation=activation)
        self.decoder = Decoder(net.append(up) if len(up) else net, likelihood_layer(likelihood))

    @property
    def support(self) -> Support:
        return self.decoder.likelihood.support

    def decode(self, z: Tensor) -> Distribution:
        """The likelihood p(x | z)."""
        return self.decoder.distribution(self._with_context(z))

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction from the posterior mean of z, flat: (B, features)."""
        reconstruction: Tensor = self.decoder(self._with_context(self.encode(x).mean))
        return reconstruction

    def _encoded(self, x: Tensor) -> Tensor:
        """The numbers of the posterior, (B, posterior)."""
        return full(self.encoder(self._with_context(self._staged(x))))

    def _staged(self, x: Tensor) -> Tensor:
        """What the encoder's fully connected layers see of the examples: flat, and after the convolutions, if any."""
        rows: Tensor = self.stages(flat(x, self.features))
        return rows

    def _with_context(self, rows: Tensor) -> Tensor:
        """The input of a network for these rows, (..., B, numbers): a conditional model adds its context."""
        return rows


def diagonal_gaussian(numbers: Tensor) -> Distribution:
    """The Gaussian whose means are the first half of these numbers, and log-scales the second, (..., 2 D)."""
    return Diagonal(*numbers.chunk(2, dim=-1))
