"""Video flow."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Recipe, Terms, Videos
from deepcanon.models.flows._multi_scale import bits_per_dim, multi_scale
from deepcanon.models.flows._sequence_flow import SequenceFlow


class VideoFlow(SequenceFlow):
    r"""A normalizing flow of videos: every frame goes through one flow, and its latents are a Gaussian random walk.

    .. math:: x_t = f(z_t), \qquad z_1 = \varepsilon_1, \qquad
              z_t = z_{t-1} + \sigma \odot \varepsilon_t, \qquad \varepsilon_t \sim N(0, I) \qquad (1)

    .. math:: \log p(x_1 \dots x_T) = \sum_t \left( \log N(\varepsilon_t; 0, I)
              + \log \left| \det \frac{dz_t}{dx_t} \right| \right) - (T - 1) \sum_i \log \sigma_i \qquad (2)

    The flow f of a frame is that of Glow, invertible and with several scales; the scale :math:`\sigma` of the steps is
    learned for each latent. A frame is told from its latent and back without loss, so the likelihood is exact; with a
    linear f the model is a linear Gaussian state-space model without noise in the observations, and (2) its evidence.
    One frame alone has the likelihood of Glow. The VideoFlow of Kumar et al. has networks for the mean and the scale
    of the steps, where this model has the latent before and a constant.

    The loss and the metrics are means over frames, and the length of a video is given. Of frames of L gray levels with
    uniform noise, scaled to (0, 1), the negative log-likelihood is also given in bits per dimension:

    .. math:: -\frac{\log p(x_1 \dots x_T)}{T D \log 2} + \log_2 L, \qquad D = C H W \qquad (3)

    References:
        | VideoFlow: A Conditional Flow-Based Model for Stochastic Video Generation (Kumar et al., 2020),
          https://arxiv.org/abs/1903.01434
        | Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018),
          https://arxiv.org/abs/1807.03039

    Arguments:
        channels: The channels of a frame: 1 if it is gray, 3 if it has colors.
        height: The height of a frame in pixels.
        width: The width of a frame in pixels.
        length: The number of frames of a sample.
        levels: The gray levels L of the frames before they were dequantized; if known, metrics have bits per dimension.
        scales: The number of scales; height and width must be divisible by 2 so many times.
        depth: The number of steps of the flow at each scale.
        hidden: The channels of the two hidden layers in the networks.
    """

    recipe = Recipe(lr=3e-3, schedule="cosine:warmup=50", batch_size=16, epochs=10, clip="norm:50")

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        length: int,
        levels: int | None = None,
        scales: int = 2,
        depth: int = 4,
        hidden: int = 32,
    ) -> None:
        super().__init__(channels, height, width, length)
        self.levels = levels
        self.flow = multi_scale(self.shape, scales, depth, hidden)
        self.log_scale = nn.Parameter(torch.zeros(self.dimensions))

    @classmethod
    def example(cls) -> tuple[Self, Videos]:
        x = torch.randn(12, 3, 1, 2, 2, generator=torch.Generator().manual_seed(0)).cumsum(-1).cumsum(1)
        model = cls(channels=1, height=2, width=2, length=3, levels=4, scales=1, depth=2, hidden=4)
        return model, Videos(x, lengths=1 + torch.arange(12) % 3)

    def _noise_of(self, z: Tensor) -> tuple[Tensor, Tensor]:
        steps = (z[:, 1:] - z[:, :-1]) * (-self.log_scale).exp()
        change = torch.cat([self.log_scale.new_zeros(1), -self.log_scale.sum().expand(z.shape[1] - 1)])  # eq. (2)
        return torch.cat([z[:, :1], steps], 1), change

    def _latents_of(self, noise: Tensor, before: Tensor | None = None) -> Tensor:
        steps = noise * self.log_scale.exp()
        first = noise[:, :1] if before is None else before.unsqueeze(1) + steps[:, :1]
        return torch.cat([first, steps[:, 1:]], 1).cumsum(1)  # eq. (1)

    def _metrics_of(self, terms: Terms, batch: Videos) -> Terms:
        return bits_per_dim(super()._metrics_of(terms, batch), self.dimensions, self.levels)  # eq. (3)
