"""Conditional variational autoencoder (CVAE)."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution
from torch.nn.functional import one_hot

from deepcanon.core import ClassConditional, Labeled, Terms, draw, given_batch
from deepcanon.core.checks import at_least, one_of
from deepcanon.distributions.likelihoods import LikelihoodName
from deepcanon.models.variational._encoder_decoder import VariationalAutoencoder, diagonal_gaussian
from deepcanon.nn.activations import Activation

PriorName = Literal["standard", "learned"]

SHOWN = 10
"""How many classes the gallery shows."""


class ConditionalVAE(ClassConditional, VariationalAutoencoder[Labeled]):
    r"""A VAE of the data of each class: encoder, decoder and, if it is learned, the prior are given the class.

    Also known as: class-conditional VAE.

    .. math:: -\log p(x \mid y) \le E_{q(z \mid x, y)}[-\log p(x \mid z, y)] + KL(q(z \mid x, y) \,\|\, p(z \mid y))
              \qquad (1)

    .. math:: q(z \mid x, y) = N(\mu(x, y), \operatorname{diag} \sigma^2(x, y)) \qquad (2)

    .. math:: p(z \mid y) = N(0, I), \quad \text{or} \quad
              p(z \mid y) = N(\mu_y, \operatorname{diag} \sigma_y^2) \text{ if it is learned} \qquad (3)

    All methods are those of a VAE, conditioned on a class by ``given`` or ``context``. Since the decoder has the class,
    z holds what is left: of digits the slant, the width, the hand of the writer.

    References:
        | Learning Structured Output Representation using Deep Conditional Generative Models (Sohn et al., 2015),
          https://papers.nips.cc/paper/2015/hash/8d55a249e6baa5c06772297520da2051-Abstract.html
        | Semi-Supervised Learning with Deep Generative Models (Kingma et al., 2014), https://arxiv.org/abs/1406.5298

    Arguments:
        features: The dimension of the data.
        classes: The number of classes.
        latent: The dimension of the latent :math:`z`.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse.
        likelihood: The distribution of the data given the latent: ``gaussian`` around the decoder's output with one
            learned scale, for real values; ``bernoulli``, for zeros and ones.
        prior: The prior of the latent: ``standard``, the same for all classes, or ``learned``, one for each class.
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
        classes: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (256,),
        likelihood: LikelihoodName = "gaussian",
        prior: PriorName = "standard",
        activation: Activation = "relu",
        convolutions: tuple[int, ...] = (),
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> None:
        at_least(1, classes=classes)
        one_of(get_args(PriorName), prior=prior)
        super().__init__(
            features, latent, hidden, likelihood, activation, posterior=2 * latent, context=classes,
            convolutions=convolutions, image=(channels, height, width),
        )  # fmt: skip
        self.classes = classes
        # means and log-scales of each class; at first all are N(0, I)
        self.priors = nn.Parameter(torch.zeros(classes, 2 * latent)) if prior == "learned" else None

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, classes=3, latent=2, hidden=(8,), prior="learned"), Labeled(x, torch.arange(32) % 3)

    def loss(self, batch: Labeled) -> Terms:
        reconstruction, kl = given_batch(self, batch).bound(batch.x)
        return {"reconstruction": reconstruction.mean(), "kl": kl.mean()}  # eq. (1)

    def encode(self, x: Tensor) -> Distribution:
        """The approximate posterior q(z | x, y) of each example."""
        return diagonal_gaussian(self._encoded(x))  # eq. (2)

    def prior(self) -> Distribution:
        """The prior p(z | y), if it is learned one for each row of the context."""
        if self.priors is None:
            return super().prior()
        return diagonal_gaussian(self.priors[self._labels()])  # eq. (3)

    @torch.no_grad()
    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """The means of p(x | z, y), a row for each class y, a column for each of as many z as there are examples."""
        noise = draw(super().prior(), generator, (len(x),))
        shown = {}
        for label in range(min(self.classes, SHOWN)):
            model = self.given(label)
            prior = model.prior()
            shown[f"class {label}"] = model.decode(prior.mean + prior.stddev * noise).mean.reshape(x.shape)
        return shown

    def _with_context(self, rows: Tensor) -> Tensor:
        labels = self._labels(rows.shape[-2])
        chosen = one_hot(labels, self.classes).to(rows.dtype)
        return torch.cat([rows, chosen.expand(*rows.shape[:-1], -1)], -1)

    def _labels(self, n: int | None = None) -> Tensor:
        """The classes that are bound, of n examples or as they are."""
        labels = self._context(n if n is not None else 0 if self.context is None else len(self.context))
        assert isinstance(labels, Tensor)
        return labels
