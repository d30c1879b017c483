"""Denoising autoencoder (DAE)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Recipe, Terms
from deepcanon.core.checks import positive
from deepcanon.models.autoencoders._autoencoder import DenseCoder
from deepcanon.nn.activations import Activation


class DenoisingAutoencoder(DenseCoder):
    r"""An autoencoder that reconstructs clean examples from noisy ones, and so learns the score of the data.

    .. math:: E = \frac1N \sum_n \lVert x_n - r(\tilde x_n) \rVert^2, \qquad r = d \circ e, \quad
              \tilde x_n = x_n + \sigma \varepsilon_n, \quad \varepsilon_n \sim N(0, I) \qquad (1)

    The best reconstruction is the posterior mean of the clean example. By Tweedie's formula its step from the noisy one
    is the score of the smoothed density :math:`p_\sigma = p * N(0, \sigma^2 I)`, not that of the data themselves.

    .. math:: \nabla \log p_\sigma(\tilde x) = \frac{E[x \mid \tilde x] - \tilde x}{\sigma^2}
              \approx \frac{r(\tilde x) - \tilde x}{\sigma^2} \qquad (2)

    The noise keeps the autoencoder from copying its input, so that the code may have more values than the input.

    References:
        | Extracting and Composing Robust Features with Denoising Autoencoders (Vincent et al., 2008),
          https://doi.org/10.1145/1390156.1390294
        | A Connection Between Score Matching and Denoising Autoencoders (Vincent, 2011),
          https://doi.org/10.1162/NECO_a_00142
        | What Regularized Auto-Encoders Learn from the Data Generating Distribution (Alain and Bengio, 2014),
          https://arxiv.org/abs/1211.4246

    Arguments:
        features: The dimension of the data.
        latent: The dimension of the code.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse.
        sigma: The standard deviation :math:`\sigma` of the noise, in the units of the data.
        activation: The activation of the hidden layers by name.
        convolutions: The channels of convolutions before the encoder's hidden layers, each of which halves height and
            width of an image; the decoder has them transposed, in reverse. Without them all layers are fully connected.
        channels: The channels of an image, where there are convolutions: 1 if it is gray, 3 if it has colors.
        height: The height of such an image in pixels.
        width: Its width in pixels.
    """

    recipe = Recipe(epochs=50)

    def __init__(
        self,
        features: int,
        latent: int = 64,
        hidden: tuple[int, ...] = (256,),
        sigma: float = 0.3,
        activation: Activation = "relu",
        convolutions: tuple[int, ...] = (),
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> None:
        positive(sigma=sigma)
        image = channels, height, width
        super().__init__(features, latent, hidden, activation, convolutions=convolutions, image=image)
        self.sigma = sigma

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=6, hidden=(16,), sigma=0.8, activation="tanh"), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        noisy = self.corrupt(batch.x)
        return {"reconstruction": self.error(self.encode(noisy), batch.x).mean()}  # eq. (1)

    def corrupt(self, x: Tensor, *, generator: Generator | None = None) -> Tensor:
        """The examples with noise of the standard deviation ``sigma``."""
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        return x + self.sigma * noise

    def score(self, x: Tensor) -> Tensor:
        """The gradient of the logarithm of the smoothed density at noisy examples, in the shape of ``x``."""
        return (self.reconstruct(x) - x) / self.sigma**2  # eq. (2)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Rows of pictures: examples, the same with noise, and what the autoencoder makes of these."""
        noisy = self.corrupt(x, generator=generator)
        return {"clean": x, "noisy": noisy, "denoised": self.reconstruct(noisy)}
