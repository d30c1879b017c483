"""Variational autoencoder (VAE)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor
from torch.distributions import Distribution

from deepcanon.core import Batch, Terms
from deepcanon.core.checks import at_least
from deepcanon.distributions.likelihoods import LikelihoodName
from deepcanon.models.variational._encoder_decoder import VariationalAutoencoder, diagonal_gaussian
from deepcanon.nn.activations import Activation


class VAE(VariationalAutoencoder[Batch]):
    r"""A latent-variable model with an encoder and a decoder, trained on the evidence lower bound (ELBO).

    Also known as: auto-encoding variational Bayes (AEVB), deep latent Gaussian model (DLGM).

    The prior is :math:`p(z) = N(0, I)`; the loss is the negative ELBO.

    .. math:: -\log p(x) \le E_{q(z \mid x)}[-\log p(x \mid z)] + KL(q(z \mid x) \,\|\, p(z)) \qquad (1)

    .. math:: q(z \mid x) = N(\mu(x), \operatorname{diag} \sigma^2(x)) \qquad (2)

    The expectation is estimated by the reparameterization (3), with one sample or as the mean of L, which has 1/L of
    the variance; the KL divergence is in closed form.

    .. math:: z = \mu(x) + \sigma(x) \odot \varepsilon, \quad \varepsilon \sim N(0, I) \qquad (3)

    .. math:: KL(q(z \mid x) \,\|\, p(z)) = \tfrac12 \sum_j (\mu_j^2 + \sigma_j^2 - 1 - \log \sigma_j^2) \qquad (4)

    The two terms of the loss are ``reconstruction`` and ``kl``, in nats per example. The part ``decoder`` maps a latent
    z to the mean of the data. Without hidden layers the Gaussian model is probabilistic PCA.

    References:
        | Auto-Encoding Variational Bayes (Kingma and Welling, 2014), https://arxiv.org/abs/1312.6114
        | Stochastic Backpropagation and Approximate Inference in Deep Generative Models (Rezende et al., 2014),
          https://arxiv.org/abs/1401.4082

    Arguments:
        features: The dimension of the data.
        latent: The dimension of the latent :math:`z`.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse.
        likelihood: The distribution of the data given the latent: ``gaussian`` around the decoder's output with one
            learned scale, for real values; ``bernoulli``, for zeros and ones.
        activation: The activation of the hidden layers by name.
        draws: The number L of latent samples per example by which the loss is estimated.
        convolutions: The channels of convolutions before the encoder's hidden layers, each of which halves height and
            width of an image; the decoder has them transposed, in reverse. Without them all layers are fully connected.
        channels: The channels of an image, where there are convolutions: 1 if it is gray, 3 if it has colors.
        height: The height of such an image in pixels.
        width: Its width in pixels.
    """

    def __init__(
        self,
        features: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (256,),
        likelihood: LikelihoodName = "gaussian",
        activation: Activation = "relu",
        draws: int = 1,
        convolutions: tuple[int, ...] = (),
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> None:
        at_least(1, draws=draws)
        super().__init__(
            features, latent, hidden, likelihood, activation, posterior=2 * latent,
            convolutions=convolutions, image=(channels, height, width),
        )  # fmt: skip
        self.draws = draws

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2, hidden=(8,)), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        reconstruction, kl = self.bound(batch.x)  # eqs. (3) and (4)
        return {"reconstruction": reconstruction.mean(), "kl": kl.mean()}  # eq. (1)

    def encode(self, x: Tensor) -> Distribution:
        """The approximate posterior q(z | x) of each example."""
        return diagonal_gaussian(self._encoded(x))  # eq. (2)
