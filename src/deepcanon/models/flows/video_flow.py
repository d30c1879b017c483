"""Video flow."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Recipe, Videos
from deepcanon.models.flows._multi_scale import multi_scale
from deepcanon.models.flows._sequence_flow import SequenceFlow, State


class VideoFlow(SequenceFlow):
    r"""A normalizing flow of videos: each frame goes through one flow, and its latents follow a Gaussian random walk.

    .. math:: x_t = f(u_t), \qquad u_t = z_t + \tau \odot \eta_t, \qquad z_t = z_{t-1} + \sigma \odot \xi_t, \qquad
              \eta_t, \xi_t \sim N(0, I) \qquad (1)

    The walk :math:`z_t` carries on what stays, the noise :math:`\tau` what every frame has anew, as that of
    dequantization; both scales are learned for each latent, and :math:`u_1 \sim N(0, I)`. What the latents before tell
    of the next one is a Gaussian, by a Kalman filter of each latent, from :math:`m_1 = 0`, :math:`P_1 = 1 - \tau^2` on:

    .. math:: S_t = P_t + \tau^2, \qquad m_{t+1} = m_t + \tfrac{P_t}{S_t} (u_t - m_t), \qquad
              P_{t+1} = \tfrac{\tau^2}{S_t} P_t + \sigma^2 \qquad (2)

    .. math:: \log p(x_1 \dots x_T) = \sum_t \left( \log N(u_t; m_t, S_t)
              + \log \left| \det \frac{du_t}{dx_t} \right| \right) \qquad (3)

    The flow f is that of Glow; it loses nothing, so (3) is exact. With a linear f the model is a linear Gaussian
    state-space model and (3) its evidence; one frame alone has the likelihood of Glow. Without ``noise`` the latents
    are the walk itself. The VideoFlow of Kumar et al. has networks for mean and variance of the next latent.

    Loss and metrics are means over frames; the length of a video is given. Of frames of L gray levels with uniform
    noise, scaled to (0, 1), the negative log-likelihood is also given in bits per dimension:

    .. math:: -\frac{\log p(x_1 \dots x_T)}{T D \log 2} + \log_2 L, \qquad D = C H W \qquad (4)

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
        noise: Whether latents have noise of their own at every frame, besides that of the walk.
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
        noise: bool = True,
    ) -> None:
        super().__init__(channels, height, width, length)
        self.levels = levels  # eq. (4)
        self.flow = multi_scale(self.shape, scales, depth, hidden)
        # With noise, it begins near frames that are independent, and learns what stays; a walk alone must explain all.
        self.log_scale = nn.Parameter(torch.full((self.dimensions,), -2.0 if noise else 0.0))
        self.noise_logit = nn.Parameter(torch.full((self.dimensions,), 2.0)) if noise else None

    @classmethod
    def example(cls) -> tuple[Self, Videos]:
        x = torch.randn(12, 3, 1, 2, 2, generator=torch.Generator().manual_seed(0)).cumsum(-1).cumsum(1)
        model = cls(channels=1, height=2, width=2, length=3, levels=4, scales=1, depth=2, hidden=4)
        return model, Videos(x, lengths=1 + torch.arange(12) % 3)

    def _start(self) -> State:
        return torch.zeros_like(self.log_scale).unsqueeze(0), (1 - self._noise_variance()).unsqueeze(0)

    def _predicted(self, state: State) -> tuple[Tensor, Tensor]:
        mean, variance = state
        return mean, (variance + self._noise_variance()).sqrt()  # eq. (3)

    def _updated(self, state: State, latent: Tensor) -> State:
        (mean, variance), noise = state, self._noise_variance()
        gain = variance / (variance + noise)
        return mean + gain * (latent - mean), (1 - gain) * variance + (2 * self.log_scale).exp()  # eqs. (1) and (2)

    def _noise_variance(self) -> Tensor:
        return torch.zeros_like(self.log_scale) if self.noise_logit is None else self.noise_logit.sigmoid()
