"""Variational autoencoder with a normalizing-flow posterior."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Tensor
from torch.distributions import Distribution

from deepcanon.core import Batch, Terms
from deepcanon.core.checks import at_least, one_of
from deepcanon.distributions.likelihoods import LikelihoodName
from deepcanon.distributions.pushforward import Pushforward
from deepcanon.models.variational._encoder_decoder import VariationalAutoencoder, diagonal_gaussian
from deepcanon.nn.activations import Activation
from deepcanon.nn.inverse_autoregressive import InverseAutoregressive
from deepcanon.nn.planar_flow import Planar, Radial
from deepcanon.nn.transforms import Chain, Reverse, Transform

FlowName = Literal["planar", "radial", "iaf"]


class FlowVAE(VariationalAutoencoder[Batch]):
    r"""A VAE whose posterior is a Gaussian moved by a normalizing flow, so that it need not be Gaussian.

    Also known as: variational inference with normalizing flows, VAE with planar flows, VAE with an inverse
    autoregressive flow (IAF).

    .. math:: -\log p(x) \le E_{q(z \mid x)}[-\log p(x \mid z) + \log q(z \mid x) - \log p(z)] \qquad (1)

    .. math:: z = f_K \circ \cdots \circ f_1(z_0), \quad z_0 \sim N(\mu(x), \operatorname{diag} \sigma^2(x)), \qquad
              \log q(z \mid x) = \log q_0(z_0) - \sum_{k=1}^K \log |\det f_k'(z_{k-1})| \qquad (2)

    A planar flow pushes points along a direction, :math:`f(z) = z + u \tanh(w^\top z + b)`, a radial one away from a
    center. Their parameters are outputs of the encoder, too, so that every x has a flow of its own. A step of an
    inverse autoregressive flow, ``iaf``, scales and shifts every latent by a masked network of those before it and of
    the encoder's summary, :math:`f(z) = \sigma \odot z + (1 - \sigma) \odot m`; from step to step their order is
    reversed. The KL divergence has no closed form, and the loss takes it at the same sample as the reconstruction.

    References:
        | Variational Inference with Normalizing Flows (Rezende and Mohamed, 2015), https://arxiv.org/abs/1505.05770
        | Improved Variational Inference with Inverse Autoregressive Flow (Kingma et al., 2016),
          https://arxiv.org/abs/1606.04934

    Arguments:
        features: The dimension of the data.
        latent: The dimension of the latent :math:`z`.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse, and so many has each masked
            network of an inverse autoregressive flow.
        flow: The transforms of the flow: ``planar``, ``radial`` or ``iaf``.
        transforms: The number :math:`K` of transforms.
        summary: The number of values by which the encoder tells the flow about x.
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
        flow: FlowName = "planar",
        transforms: int = 8,
        summary: int = 32,
        likelihood: LikelihoodName = "gaussian",
        activation: Activation = "relu",
        convolutions: tuple[int, ...] = (),
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> None:
        at_least(1, transforms=transforms, summary=summary)
        one_of(get_args(FlowName), flow=flow)
        super().__init__(
            features, latent, hidden, likelihood, activation, posterior=2 * latent + summary,
            convolutions=convolutions, image=(channels, height, width),
        )  # fmt: skip
        steps: list[Transform] = []
        for number in range(transforms):
            if flow == "iaf":
                steps += [*([Reverse()] if number else []), InverseAutoregressive(latent, summary, hidden)]
            else:
                steps.append((Planar if flow == "planar" else Radial)(latent, summary))
        self.flow = Chain(steps)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2, hidden=(8,), transforms=2, summary=3), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        reconstruction, kl = self.bound(batch.x)
        return {"reconstruction": reconstruction.mean(), "kl": kl.mean()}  # eq. (1)

    def encode(self, x: Tensor) -> Distribution:
        """The approximate posterior q(z | x) of each example."""
        numbers, summary = self._encoded(x).tensor_split([2 * self.latent], dim=-1)
        return Pushforward(diagonal_gaussian(numbers), self.flow, summary)  # eq. (2)
