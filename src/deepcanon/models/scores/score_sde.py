"""Score-based model by stochastic differential equations (score SDE)."""

from __future__ import annotations

from typing import Self, get_args

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, NamedSamplers, Recipe, Terms, UsageError
from deepcanon.core.checks import one_of
from deepcanon.core.precision import full
from deepcanon.distributions.bits_per_dim import bits_per_dim
from deepcanon.models._denoising import FlowDensity, Network, denoising_network
from deepcanon.models.scores._sde import PROCESSES, Process

FIRST = 1e-3
"""The first time that is trained; before it the noise is as at this time."""
STEPS = 200
"""How many steps a sampler of the reverse equation takes by default."""
CLOCK = 100.0
"""The last time as the network reads it: with 1000, as for the timesteps of a diffusion, its features of the time
oscillate so fast that the flow takes four times as many steps to solve."""
SNR = 0.16
"""The signal-to-noise ratio of the Langevin steps of the corrector."""


class ScoreSDE(FlowDensity[Batch], NamedSamplers[Batch]):
    r"""A score-based model in continuous time, sampled along a stochastic or an ordinary differential equation.

    Also known as: score-based generative modeling through SDEs, VP-SDE, VE-SDE, sub-VP-SDE.

    Data become noise along :math:`dx = f(t) \, x \, dt + g(t) \, dw`, so that :math:`x(t) = a \, x(0) + s \,
    \varepsilon`. A network learns the score of x(t) by denoising at random times.

    .. math:: L = E_{t, x(0), \varepsilon} \lVert \varepsilon - \hat\varepsilon(x(t), t) \rVert^2, \qquad
              \nabla \log p_t(x) \approx -\hat\varepsilon(x, t) / s \qquad (1)

    .. math:: \hat\varepsilon(x, t) = \sin\varphi \, y + \cos\varphi \, v(y, t), \qquad \varphi = \arctan(s / a), \;
              y = x / \sqrt{a^2 + s^2} \qquad (2)

    Where v is 0, (2) is right for Gaussian data of unit variance. Backwards in time, the equation turns noise into
    data; the ``reverse`` sampler takes steps of Euler and Maruyama, ``predictor_corrector`` a step of Langevin dynamics
    after each of them. The ``flow``, the default, is an ordinary differential equation with the same distribution at
    all times, and ``log_prob`` the likelihood of its samples, by an adaptive solver.

    .. math:: dx = \left( f \, x - g^2 \nabla \log p_t(x) \right) dt + g \, d\bar w \qquad (3)

    .. math:: \frac{dy}{d\varphi} = v(y, t), \qquad \log p(x(0)) = \log N(y(\varphi_1); 0, I) + \int_0^{\varphi_1}
              \operatorname{tr} \frac{\partial v}{\partial y} \, d\varphi \qquad (4)

    The trace is exact for up to 8 features; for more it is estimated by random directions, which does not bias it.
    Data are standardized first. All but the loss use an exponential moving average (EMA) of the weights.

    References:
        | Score-Based Generative Modeling through Stochastic Differential Equations (Song et al., 2021),
          https://arxiv.org/abs/2011.13456
        | Progressive Distillation for Fast Sampling of Diffusion Models (Salimans and Ho, 2022), for (2) and the angle,
          https://arxiv.org/abs/2202.00512

    Arguments:
        features: The dimension of the data.
        channels: The channels of an image, where the data are images.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
        process: How noise is added: ``vp`` (variance preserving), ``subvp`` (less than that), or ``ve`` (exploding).
        network: The network: ``mlp``, residual and dense, or ``unet``, convolutional with attention, for images.
        hidden: The widths of the residual blocks, or the channels at each resolution of the U-Net.
        average: The decay of the exponential moving average of the weights.
        tolerance: The error, relative and absolute, that a step along the flow may have.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine", batch_size=128, epochs=200)
    samplers = ("flow", "reverse", "predictor_corrector")
    measured_samples = 1
    costly_likelihood = True

    def __init__(
        self,
        features: int,
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
        levels: int | None = None,
        process: Process = "vp",
        network: Network = "mlp",
        hidden: tuple[int, ...] | None = None,
        average: float = 0.999,
        tolerance: float = 1e-5,
    ) -> None:
        super().__init__(features)
        one_of(get_args(Process), process=process)
        if not 0 < tolerance <= 0.01:
            raise UsageError(f"tolerance is a small error, above 0 and at most 0.01 (got {tolerance})")
        self.process, self.tolerance, self.levels = process, tolerance, levels
        self.sde = PROCESSES[process]
        self.likelihood_kind = self._flow_kind()
        self._set_network(denoising_network(network, features, (channels, height, width), hidden), average)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0)).cumsum(1)
        return cls(features=3, hidden=(8,), tolerance=1e-7), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        x = self._standard(batch.x)
        t = FIRST + (1 - FIRST) * torch.rand(len(x), 1, dtype=x.dtype, device=x.device)
        noise = torch.randn_like(x)
        predicted = self._noise_by(self.net, self.sde.signal(t) * x + self.sde.noise(t) * noise, t)
        return {"denoising": (noise - predicted).square().sum(-1).mean()}  # eq. (1)

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        return bits_per_dim(super()._metrics_of(terms, batch), self.features, self.levels)

    def score(self, x: Tensor, t: float = FIRST) -> Tensor:
        """The gradient of the log-density of data with the noise of time t, in the shape and units of ``x``."""
        if not FIRST <= t <= 1:
            raise UsageError(f"t is a time from {FIRST:g} to 1 (got {t})")
        time = torch.full((1, 1), t, device=x.device, dtype=self.to_standard.scale.dtype)
        signal = self.sde.signal(time)
        return (self.to_standard.scale * signal * self._score(signal * self._standard(x), time)).reshape(x.shape)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._flow_log_prob(x)  # eq. (4)

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return self._flow_log_prob(x, samples, generator)

    def _sample_by(self, n: int, sampler: str, steps: int | None, generator: Generator | None) -> Tensor:
        """Examples along the flow, or along the reverse equation in so many steps, (n, features)."""
        if sampler == "flow":
            if steps is not None:
                raise UsageError("the flow takes as many steps as its tolerance asks for; leave out steps")
            return self._flow_sample(n, generator)
        times = torch.linspace(1, FIRST, (steps or STEPS) + 1, device=self.to_standard.scale.device)
        times = times.to(self.to_standard.scale.dtype).reshape(-1, 1, 1)
        scale = (self.sde.signal(times[0]).square() + self.sde.noise(times[0]).square()).sqrt()
        x = mean = scale * self._noise(n, generator)
        for t, step in zip(times, times.diff(dim=0), strict=False):
            drift = self.sde.drift(t) * x - self.sde.diffusion(t).square() * self._score(x, t)
            mean = x + step * drift
            x = mean + self.sde.diffusion(t) * (-step).sqrt() * self._noise(n, generator)  # eq. (3)
            if sampler == "predictor_corrector":
                x, mean = self._corrected(x, t + step, generator)
        return self._to_data(mean / self.sde.signal(times[-1]))  # without the noise of the last step

    def _corrected(self, x: Tensor, t: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """One step of Langevin dynamics at time t, with and without its noise; its size is set by ``SNR``."""
        score, z = self._score(x, t), self._noise(len(x), generator)
        norms = [values.norm(dim=-1).mean() for values in (z, score)] if len(x) else [t.new_ones(()), t.new_ones(())]
        size = 2 * (SNR * norms[0] / norms[1]).square()
        mean = x + size * score
        return mean + (2 * size).sqrt() * z, mean

    def _score(self, x: Tensor, t: Tensor) -> Tensor:
        """The score of standardized data with the noise of times (B, 1) or (1, 1)."""
        return -self._noise_by(self.averaged, x, t) / self.sde.noise(t)

    def _noise_by(self, net: nn.Module, x: Tensor, t: Tensor) -> Tensor:
        """The noise in x that a network predicts at times (B, 1) or (1, 1)."""
        signal, noise = self.sde.signal(t), self.sde.noise(t)
        spread = (signal.square() + noise.square()).sqrt()
        y = x / spread
        return noise / spread * y + signal / spread * self._velocity(net, y, t)  # eq. (2)

    def _velocity(self, net: nn.Module, y: Tensor, t: Tensor) -> Tensor:
        velocity: Tensor = full(net(y, CLOCK * t.squeeze(-1)))
        return velocity

    def _flow(self, angle: Tensor, y: Tensor) -> Tensor:
        time = self.sde.time(angle).clamp(FIRST, 1)  # below the first time the network knows no noise
        return self._velocity(self.averaged, y, time.unsqueeze(-1))

    def _last_angle(self) -> float:
        return float(self.sde.angle(torch.ones((), dtype=torch.float64)))
