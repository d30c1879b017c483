"""Importance-weighted autoencoder (IWAE)."""

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


class IWAE(VariationalAutoencoder[Batch]):
    r"""A VAE trained on the importance-weighted bound, which is tighter the more samples it takes.

    .. math:: -\log p(x) \le L_K = -E \log \frac1K \sum_{k=1}^K w_k, \qquad
              w_k = \frac{p(x \mid z_k) \, p(z_k)}{q(z_k \mid x)}, \quad z_k \sim q(z \mid x) \qquad (1)

    .. math:: q(z \mid x) = N(\mu(x), \operatorname{diag} \sigma^2(x)) \qquad (2)

    With one sample it is the VAE; the bound never loosens with K and tends to the evidence. Since a few good samples
    are enough, the posterior may spread wider than that of the VAE, and more of the latents are used. The gradient is
    that of (1) by reparameterization: the samples count by their normalized weights.

    .. math:: \nabla L_K = -E \sum_k \tilde w_k \nabla \log w_k, \qquad
              \tilde w_k = \frac{w_k}{\sum_j w_j} \qquad (3)

    References:
        | Importance Weighted Autoencoders (Burda et al., 2016), https://arxiv.org/abs/1509.00519

    Arguments:
        features: The dimension of the data.
        latent: The dimension of the latent :math:`z`.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse.
        importance_samples: The number :math:`K` of samples of the training bound.
        likelihood: The distribution of the data given the latent: ``gaussian`` around the decoder's output with one
            learned scale, for real values; ``bernoulli``, for zeros and ones.
        activation: The activation of the hidden layers by name.
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
        importance_samples: int = 5,
        likelihood: LikelihoodName = "gaussian",
        activation: Activation = "relu",
        convolutions: tuple[int, ...] = (),
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> None:
        at_least(1, importance_samples=importance_samples)
        super().__init__(
            features, latent, hidden, likelihood, activation, posterior=2 * latent,
            convolutions=convolutions, image=(channels, height, width),
        )  # fmt: skip
        self.importance_samples = importance_samples

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2, hidden=(8,), importance_samples=3), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        return {"bound": -self._importance_bound(batch.x, self.importance_samples).mean()}  # eqs. (1) and (3)

    def encode(self, x: Tensor) -> Distribution:
        """The proposal q(z | x) of each example."""
        return diagonal_gaussian(self._encoded(x))  # eq. (2)
