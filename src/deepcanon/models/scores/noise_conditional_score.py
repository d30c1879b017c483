"""Noise-conditional score network (NCSN)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Recipe, Terms, UsageError
from deepcanon.core.checks import at_least, positive
from deepcanon.core.precision import full
from deepcanon.models._denoising import Denoising
from deepcanon.nn.time_mlp import TimeMLP


class NoiseConditionalScore(Denoising[Batch]):
    r"""One network for the scores of data with much noise to little, sampled by annealed Langevin dynamics.

    Also known as: score matching with Langevin dynamics (SMLD), generative modeling by estimating gradients.

    At noise levels :math:`\sigma_1 > \dots > \sigma_L` in equal ratios, denoising score matching learns the score of
    the data convolved with the noise; weighted by :math:`\sigma^2`, all levels count alike.

    .. math:: L = E \, \tfrac12 \sigma^2 \lVert \psi(x + \sigma \varepsilon, \sigma) + \varepsilon / \sigma \rVert^2,
              \quad \varepsilon \sim N(0, I) \qquad (1)

    .. math:: \psi(x, \sigma) = -\frac{x}{1 + \sigma^2} + \frac{1}{\sigma \sqrt{1 + \sigma^2}} \,
              f\!\left( \frac{x}{\sqrt{1 + \sigma^2}}, \sigma \right) \qquad (2)

    The network f corrects the score of data of zero mean and unit variance. ``sample`` takes Langevin steps at one
    level after the other, from the broadest, where modes overlap, so that modes far apart get their shares. Samples
    have the noise of the last level. All but the loss use an exponential moving average (EMA) of the weights.

    .. math:: x \leftarrow x + \tfrac12 a_i \psi(x, \sigma_i) + \sqrt{a_i} \varepsilon, \; a_i = h \sigma_i^2 \qquad (3)

    References:
        | Generative Modeling by Estimating Gradients of the Data Distribution (Song and Ermon, 2019),
          https://arxiv.org/abs/1907.05600

    Arguments:
        features: The dimension of the data.
        hidden: The widths of the residual blocks of the network :math:`f`.
        noise_levels: The number :math:`L` of noise levels.
        most_noise: The :math:`\sigma_1`, in units of the standard deviation of the data.
        least_noise: The :math:`\sigma_L`, in the same units.
        langevin_steps: The number of Langevin steps at each level.
        step_size: The :math:`h` in (3).
        average: The decay of the exponential moving average of the weights.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine", batch_size=128, epochs=200)
    noises: Tensor

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (256, 256, 256),
        noise_levels: int = 20,
        most_noise: float = 10.0,
        least_noise: float = 0.03,
        langevin_steps: int = 20,
        step_size: float = 0.2,
        average: float = 0.999,
    ) -> None:
        super().__init__(features)
        at_least(1, noise_levels=noise_levels, langevin_steps=langevin_steps)
        positive(least_noise=least_noise, step_size=step_size)
        if least_noise >= most_noise:
            raise UsageError(f"noise levels fall from most_noise to least_noise (got {most_noise} and {least_noise})")
        self.langevin_steps, self.step_size = langevin_steps, step_size
        levels = most_noise * (least_noise / most_noise) ** torch.linspace(0, 1, noise_levels)
        self.register_buffer("noises", levels, persistent=False)
        self._set_network(TimeMLP(features, hidden), average)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) * 2 + 1
        return cls(features=2, hidden=(16,), noise_levels=5, least_noise=0.1, langevin_steps=4, average=0.95), Batch(x)

    @property
    def sigma(self) -> Tensor:
        """The standard deviation of the noise at the last level in the units of the data, a 0-d tensor."""
        return self.noises[-1] / self.to_standard.scale

    def loss(self, batch: Batch) -> Terms:
        x = self._standard(batch.x)
        level = torch.randint(len(self.noises), (len(x),), device=x.device)
        sigma, noise = self.noises[level].unsqueeze(-1), torch.randn_like(x)
        error = sigma * self._psi(self.net, x + sigma * noise, level) + noise
        return {"denoising": 0.5 * error.square().sum(-1).mean()}  # eq. (1)

    def score(self, x: Tensor, level: int = -1) -> Tensor:
        """The gradient of the log-density of data with the noise of a level, by default the last, shaped as ``x``."""
        place = torch.arange(len(self.noises), device=x.device)[level].reshape(1)
        return (self.to_standard.scale * self._psi(self.averaged, self._standard(x), place)).reshape(x.shape)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        net, x = self.averaged, (1 + self.noises[0].square()).sqrt() * self._noise(n, generator)
        for level in torch.arange(len(self.noises), device=x.device).split(1):
            size = self.step_size * self.noises[level].square()
            for _ in range(self.langevin_steps):
                x = x + 0.5 * size * self._psi(net, x, level) + size.sqrt() * self._noise(n, generator)  # eq. (3)
        return self._to_data(x)

    def _psi(self, net: nn.Module, x: Tensor, level: Tensor) -> Tensor:
        """The score of standardized data with the noise of the levels (B,) or (1,), (B, features)."""
        sigma, time = self.noises[level].unsqueeze(-1), level * (1000 / len(self.noises))
        spread = (1 + sigma.square()).sqrt()
        return -x / spread.square() + full(net(x / spread, time)) / (sigma * spread)  # eq. (2)
