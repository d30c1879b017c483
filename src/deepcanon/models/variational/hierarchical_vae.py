"""Hierarchical variational autoencoder (HVAE)."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Distribution

from deepcanon.core import Batch, Terms
from deepcanon.models.variational._hierarchy import Hierarchy


class HierarchicalVAE(Hierarchy):
    r"""A VAE with layers of latents, each of which sees all layers above it.

    .. math:: -\log p(x) \le E_{q(z \mid x)} \Bigl[ -\log p(x \mid z_{1:L})
              + \log \frac{q(z_{1:L} \mid x)}{p(z_{1:L})} \Bigr] \qquad (1)

    .. math:: q(z_{1:L} \mid x) = q(z_1 \mid x) \prod_{l=2}^{L} q(z_l \mid x, z_1, \dots, z_{l-1}) \qquad (2)

    .. math:: p(z_{1:L}) = p(z_L) \prod_{l=1}^{L-1} p(z_l \mid z_{l+1}, \dots, z_L), \qquad p(z_L) = N(0, I) \qquad (3)

    Nothing that an upper layer knows has to pass through the layers below it, so that these may keep to details.
    Where the layers see their neighbors alone, it is the Markov hierarchical VAE.
    Every factor is a diagonal Gaussian whose mean and scale are outputs of a network. The KL divergence of whole chains
    has no closed form, and the loss takes it at the same sample as the reconstruction.

    References:
        | Ladder Variational Autoencoders (Sonderby et al., 2016), https://arxiv.org/abs/1602.02282
        | Improved Variational Inference with Inverse Autoregressive Flow (Kingma et al., 2016),
          https://arxiv.org/abs/1606.04934

    Arguments:
        features: The dimension of the data.
        latents: The dimensions of the layers :math:`z_1, \dots, z_L`, from the lowest to the top.
        hidden: The widths of the hidden layers of every network; the decoder has them in reverse.
        likelihood: The distribution of the data given the latents: ``gaussian`` around the decoder's output with one
            learned scale, for real values; ``bernoulli``, for zeros and ones.
        activation: The activation of the hidden layers by name.
        convolutions: The channels of convolutions before the encoder's hidden layers, each of which halves height and
            width of an image; the decoder has them transposed, in reverse. Without them all layers are fully connected.
        channels: The channels of an image, where there are convolutions: 1 if it is gray, 3 if it has colors.
        height: The height of such an image in pixels.
        width: Its width in pixels.
    """

    markov = False

    def loss(self, batch: Batch) -> Terms:
        return super().loss(batch)  # eq. (1)

    def encode(self, x: Tensor) -> Distribution:
        return super().encode(x)  # eq. (2)

    def prior(self) -> Distribution:
        return super().prior()  # eq. (3)
