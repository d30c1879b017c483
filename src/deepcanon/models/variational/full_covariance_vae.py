"""Variational autoencoder with a full-covariance posterior."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor
from torch.distributions import Distribution, MultivariateNormal

from deepcanon.core import Batch, Terms
from deepcanon.distributions.likelihoods import LikelihoodName
from deepcanon.models.variational._encoder_decoder import VariationalAutoencoder
from deepcanon.nn.activations import Activation


class FullCovarianceVAE(VariationalAutoencoder[Batch]):
    r"""A VAE whose Gaussian posterior has a full covariance matrix, given by its Cholesky factor.

    Also known as: VAE with a Cholesky posterior.

    .. math:: -\log p(x) \le E_{q(z \mid x)}[-\log p(x \mid z)] + KL(q(z \mid x) \,\|\, N(0, I)) \qquad (1)

    .. math:: q(z \mid x) = N(\mu(x), L(x) L(x)^\top), \qquad
              L = \operatorname{diag}(\sigma) (I + N), \quad N \text{ strictly lower triangular} \qquad (2)

    .. math:: z = \mu(x) + L(x) \, \varepsilon, \quad \varepsilon \sim N(0, I) \qquad (3)

    .. math:: KL(q(z \mid x) \,\|\, N(0, I)) = \tfrac12 \Bigl( \lVert \mu \rVert^2 + \lVert L \rVert_F^2 - D
              - \sum_j \log L_{jj}^2 \Bigr) \qquad (4)

    The encoder gives :math:`\mu`, :math:`\log \sigma` and N, whose entries count in units of :math:`\sigma`.

    A diagonal posterior cannot say that two latents are correlated given x, though they are as soon as both explain the
    same part of it. Without hidden layers the Gaussian model is linear, its exact posterior is of the form (2), and the
    bound can be tight; a VAE with a diagonal posterior is tight there only if the latent axes are those of the PCA.

    References:
        | Auto-Encoding Variational Bayes (Kingma and Welling, 2014), https://arxiv.org/abs/1312.6114
        | An Introduction to Variational Autoencoders (Kingma and Welling, 2019), section 2.5.1,
          https://arxiv.org/abs/1906.02691

    Arguments:
        features: The dimension of the data.
        latent: The dimension :math:`D` of the latent :math:`z`.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse.
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
        likelihood: LikelihoodName = "gaussian",
        activation: Activation = "relu",
        convolutions: tuple[int, ...] = (),
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> None:
        below = latent * (latent - 1) // 2  # the entries of L below its diagonal
        super().__init__(
            features, latent, hidden, likelihood, activation, posterior=2 * latent + below,
            convolutions=convolutions, image=(channels, height, width),
        )  # fmt: skip
        self.below = below
        (*_, last) = self.encoder.children()
        with torch.no_grad():  # at first the posterior is diagonal; random correlations would have to be unlearned
            for parameter in last.parameters():
                parameter[2 * latent :] = 0

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2, hidden=(8,)), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        reconstruction, kl = self.bound(batch.x)  # eqs. (3) and (4)
        return {"reconstruction": reconstruction.mean(), "kl": kl.mean()}  # eq. (1)

    def encode(self, x: Tensor) -> Distribution:
        """The approximate posterior q(z | x) of each example."""
        mean, log_scale, below = self._encoded(x).split([self.latent, self.latent, self.below], dim=-1)
        row, column = torch.tril_indices(self.latent, self.latent, offset=-1, device=x.device)
        unit = torch.eye(self.latent, device=x.device, dtype=mean.dtype).repeat(len(x), 1, 1)
        unit[:, row, column] = below
        factor = log_scale.exp().unsqueeze(-1) * unit  # L, (B, latent, latent)
        return MultivariateNormal(mean, scale_tril=factor, validate_args=False)  # eq. (2)
