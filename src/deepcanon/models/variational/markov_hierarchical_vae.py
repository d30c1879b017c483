"""Markov hierarchical variational autoencoder (MHVAE)."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Distribution

from deepcanon.core import Batch, Terms
from deepcanon.models.variational._hierarchy import Hierarchy


class MarkovHierarchicalVAE(Hierarchy):
    r"""A VAE with layers of latents in a Markov chain: each sees only the layer next to it.

    Also known as: deep latent Gaussian model with several layers, deep variational autoencoder.

    .. math:: -\log p(x) \le E_{q(z \mid x)} \Bigl[ -\log p(x \mid z_1)
              + \log \frac{q(z_{1:L} \mid x)}{p(z_{1:L})} \Bigr] \qquad (1)

    .. math:: q(z_{1:L} \mid x) = q(z_1 \mid x) \prod_{l=2}^{L} q(z_l \mid z_{l-1}) \qquad (2)

    .. math:: p(z_{1:L}) = p(z_L) \prod_{l=1}^{L-1} p(z_l \mid z_{l+1}), \qquad p(z_L) = N(0, I) \qquad (3)

    The data see the lowest layer, and each layer the next one: given its neighbors it is independent of all others.
    A diffusion model is such a hierarchy with a fixed posterior, which adds noise, and layers as large as the data.
    Every factor is a diagonal Gaussian whose mean and scale are outputs of a network. The KL divergence of whole chains
    has no closed form, and the loss takes it at the same sample as the reconstruction.

    References:
        | Stochastic Backpropagation and Approximate Inference in Deep Generative Models (Rezende et al., 2014),
          https://arxiv.org/abs/1401.4082
        | Understanding Diffusion Models: A Unified Perspective (Luo, 2022), https://arxiv.org/abs/2208.11970

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

    markov = True

    def loss(self, batch: Batch) -> Terms:
        return super().loss(batch)  # eq. (1)

    def encode(self, x: Tensor) -> Distribution:
        return super().encode(x)  # eq. (2)

    def prior(self) -> Distribution:
        return super().prior()  # eq. (3)
