"""The denoising diffusion probabilistic model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Descend, Recipe, Terms, Turn, UsageError
from deepcanon.models.diffusion._diffusion import Diffusion, Levels, NoiseSchedule
from deepcanon.nn.averaged import Averaged
from deepcanon.nn.precision import full
from deepcanon.nn.time_mlp import TimeMLP


class DDPM(Diffusion):
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
        if not 0 <= average < 1:
            raise UsageError(f"average is a decay from 0 to below 1 (got {average})")
        self.net = TimeMLP(features, hidden)
        self.averaged = Averaged(self.net, average)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) * 2 + 1
        return cls(features=2, hidden=(8,), levels=8), Batch(x)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.net.parameters(), after=self._average)]

    def loss(self, batch: Batch) -> Terms:
        x = self._standard(batch.x)
        t = torch.randint(1, self.levels + 1, (len(x),), device=x.device)
        at = self.table().at(t)
        noise = torch.randn_like(x)
        guess = self._guess(self.net, at.alpha_bar.sqrt() * x + at.beta_bar.sqrt() * noise, t, at)
        return {"simple": (noise - guess).square().sum(-1).mean()}  # eq. (1)

    def guess(self, x: Tensor, t: Tensor, at: Levels) -> Tensor:
        return self._guess(self.averaged, x, t, at)

    def score(self, x: Tensor, t: int = 1) -> Tensor:
        """The gradient of the log-density of data with the noise of level t, in the shape and units of ``x``."""
        level = torch.tensor([t], device=x.device)
        at = self.table().at(level)
        guess = self.guess(at.alpha_bar.sqrt() * self._standard(x), level, at)
        return (-self.to_standard.scale * (at.alpha_bar / at.beta_bar).sqrt() * guess).reshape(x.shape)

    def _guess(self, net: nn.Module, x: Tensor, t: Tensor, at: Levels) -> Tensor:
        time = t * (1000 / self.levels)  # levels on one scale, however many there are
        return at.beta_bar.sqrt() * x + at.alpha_bar.sqrt() * full(net(x, time))  # eq. (2)

    def _average(self) -> None:
        self.averaged.update(self.net)
