"""Denoising diffusion probabilistic model (DDPM)."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Batch, Recipe, Terms
from deepcanon.models._denoising import Network, denoising_network
from deepcanon.models.diffusion._denoiser import Denoiser, Predicted, Variances
from deepcanon.models.diffusion._diffusion import ScheduleName


class DDPM(Denoiser[Batch]):
    r"""A diffusion model: a network predicts the noise in noisy data, and removes it step by step to draw samples.

    Also known as: diffusion model, denoising diffusion model.

    .. math:: L = E_{t, x_0, \varepsilon} \lVert \varepsilon - \hat\varepsilon(\sqrt{\bar\alpha_t} \, x_0 +
              \sqrt{1 - \bar\alpha_t} \, \varepsilon, t) \rVert^2, \qquad t \sim U\{1 \dots T\}, \;
              \varepsilon \sim N(0, I) \qquad (1)

    .. math:: \hat\varepsilon(x_t, t) = \sqrt{1 - \bar\alpha_t} \, x_t + c_t f(x_t, t), \qquad c_t =
              \sqrt{\bar\alpha_t} \text{ (v)}, \; 1 \text{ (noise)}, \; -\sqrt{\bar\alpha_t / (1 - \bar\alpha_t)}
              \text{ (data)} \qquad (2)

    The network f predicts the velocity v, the noise or the data, each less the best linear prediction for data of unit
    variance. The ``simple`` loss (1) is the evidence lower bound (ELBO) with every timestep weighted alike;
    ``log_prob`` is the ELBO itself, in nats, and of ``with_likelihood("flow")`` the exact likelihood of the probability
    flow. ``sample`` runs the reverse process through all timesteps (``ancestral``), or a solver through a few of them:
    ``ddim``, of order 1, ``heun`` or ``dpm`` (DPM-Solver++), of order 2. All but the loss use an exponential moving
    average (EMA) of the weights.

    References:
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239
        | Denoising Diffusion Implicit Models (Song et al., 2021), https://arxiv.org/abs/2010.02502
        | Progressive Distillation for Fast Sampling of Diffusion Models (Salimans and Ho, 2022), for (2),
          https://arxiv.org/abs/2202.00512
        | Improved Denoising Diffusion Probabilistic Models (Nichol and Dhariwal, 2021), for learned variances,
          https://arxiv.org/abs/2102.09672
        | DPM-Solver++: Fast Solver for Guided Sampling of Diffusion Probabilistic Models (Lu et al., 2022),
          https://arxiv.org/abs/2211.01095

    Arguments:
        features: The dimension of the data.
        channels: The channels of an image, where the data are images.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
        network: The network: ``mlp``, residual and dense, or ``unet``, convolutional with attention, for images.
        hidden: The widths of the residual blocks, or the channels at each resolution of the U-Net.
        timesteps: The number :math:`T` of timesteps.
        noise: The noise schedule, by which the noise grows from timestep to timestep: ``linear`` or ``cosine``.
        average: The decay of the exponential moving average of the weights.
        prediction: What the network predicts: ``v``, ``noise`` or ``data``.
        variances: Those of the reverse process: ``fixed``, or ``learned`` for each value at each timestep.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine", batch_size=128, epochs=400)

    def __init__(
        self,
        features: int,
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
        levels: int | None = None,
        network: Network = "mlp",
        hidden: tuple[int, ...] | None = None,
        timesteps: int = 200,
        noise: ScheduleName = "cosine",
        average: float = 0.999,
        prediction: Predicted = "v",
        variances: Variances = "fixed",
    ) -> None:
        super().__init__(features, timesteps, noise, prediction, variances, levels)
        image = (channels, height, width)
        self._set_network(denoising_network(network, features, image, hidden, outputs=self._outputs), average)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) * 2 + 1
        return cls(features=2, hidden=(8,), timesteps=8), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        return self._hybrid_loss(batch.x)  # eqs. (1) and (2)
