"""The denoising diffusion probabilistic model."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Batch, Recipe
from deepcanon.models.diffusion._denoiser import Denoiser
from deepcanon.models.diffusion._diffusion import NoiseSchedule
from deepcanon.nn.time_mlp import TimeMLP


class DDPM(Denoiser[Batch]):
    r"""A network learns to see the noise in noisy data, and draws data by taking noise away step by step.

    .. math:: L = E_{t, x_0, \varepsilon} \lVert \varepsilon - \hat\varepsilon(\sqrt{\bar\alpha_t} \, x_0 +
              \sqrt{1 - \bar\alpha_t} \, \varepsilon, t) \rVert^2, \qquad t \sim U\{1 \dots T\}, \;
              \varepsilon \sim N(0, I) \qquad (1)

    .. math:: \hat\varepsilon(x_t, t) = \sqrt{1 - \bar\alpha_t} \, x_t + \sqrt{\bar\alpha_t} \, v(x_t, t) \qquad (2)

    The network is v; where it gives 0, (2) is the best linear guess for data of unit variance. The ``simple`` loss (1)
    is the bound on the evidence with every level weighted alike; ``log_prob`` is the bound itself, in nats. Whatever
    the model says, it says with a moving average of its weights. ``sample`` goes back through all levels, ``ddim``
    through a few of them.

    References:
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239
        | Denoising Diffusion Implicit Models (Song et al., 2021), https://arxiv.org/abs/2010.02502
        | Progressive Distillation for Fast Sampling of Diffusion Models (Salimans and Ho, 2022), for (2),
          https://arxiv.org/abs/2202.00512

    Arguments:
        features: The dimension of the data.
        hidden: The widths of the residual blocks of the network.
        levels: The number :math:`T` of noise levels.
        noise: How the noise grows from level to level: ``linear`` or ``cosine``.
        average: The decay of the moving average of the weights.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine", batch_size=128, epochs=400)

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (256, 256, 256),
        levels: int = 200,
        noise: NoiseSchedule = "cosine",
        average: float = 0.999,
    ) -> None:
        super().__init__(features, levels, noise)
        self._learn_by(TimeMLP(features, hidden), average)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) * 2 + 1
        return cls(features=2, hidden=(8,), levels=8), Batch(x)
