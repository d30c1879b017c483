"""Denoising diffusion models: those with a network that is trained to predict the noise in noisy data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deepcanon.core import Descend, Turn, UsageError
from deepcanon.core.precision import full
from deepcanon.models.diffusion._diffusion import B, Diffusion, NoiseSchedule
from deepcanon.nn.averaged import Averaged


class Denoiser(Diffusion[B]):
    r"""A denoising diffusion model: a network predicts the noise that was added, at a random timestep per example.

    .. math:: L = E_{t, x_0, \varepsilon} \lVert \varepsilon - \hat\varepsilon(\sqrt{\bar\alpha_t} \, x_0 +
              \sqrt{1 - \bar\alpha_t} \, \varepsilon, t) \rVert^2, \qquad t \sim U\{1 \dots T\}, \;
              \varepsilon \sim N(0, I) \qquad (1)

    .. math:: \hat\varepsilon(x_t, t) = \sqrt{1 - \bar\alpha_t} \, x_t + \sqrt{\bar\alpha_t} \, v(x_t, t) \qquad (2)

    The network is trained on (1) and predicts v; where v is 0, (2) is the best linear prediction for data of unit
    variance. ``sample``, ``log_prob`` and ``score`` use an exponential moving average (EMA) of its weights.
    """

    net: nn.Module
    averaged: Averaged

    def _set_network(self, net: nn.Module, average: float) -> None:
        """Take the network v, and start the exponential moving average of its weights with this decay."""
        if not 0 <= average < 1:
            raise UsageError(f"average is a decay from 0 to below 1 (got {average})")
        self.net = net
        self.averaged = Averaged(net, average)

    def turns(self) -> Sequence[Turn[B]]:
        return [Descend(self.loss, self.net.parameters(), after=self._average)]

    def predicted_noise(self, x: Tensor, t: Tensor, at: NoiseSchedule | None = None) -> Tensor:
        return self._predicted_noise(self.averaged, x, t, self.noise_schedule().at(t) if at is None else at)

    def score(self, x: Tensor, t: int = 1) -> Tensor:
        """The gradient of the log-density of data with the noise of timestep t, in the shape and units of ``x``."""
        time = torch.tensor([t], device=x.device)
        at = self.noise_schedule().at(time)
        predicted = self.predicted_noise(at.alpha_bar.sqrt() * self._standard(x), time, at)
        return (-self.to_standard.scale * (at.alpha_bar / at.beta_bar).sqrt() * predicted).reshape(x.shape)

    def _simple_loss(self, x: Tensor) -> Tensor:
        """The squared error of the predicted noise at random timesteps, a mean over examples."""
        x = self._standard(x)
        t = torch.randint(1, self.timesteps + 1, (len(x),), device=x.device)
        at = self.noise_schedule().at(t)
        noise = torch.randn_like(x)
        predicted = self._predicted_noise(self.net, at.alpha_bar.sqrt() * x + at.beta_bar.sqrt() * noise, t, at)
        return (noise - predicted).square().sum(-1).mean()  # eq. (1)

    def _predicted_noise(self, net: nn.Module, x: Tensor, t: Tensor, at: NoiseSchedule) -> Tensor:
        time = t * (1000 / self.timesteps)  # on one scale, however many timesteps there are
        return at.beta_bar.sqrt() * x + at.alpha_bar.sqrt() * full(self._v(net, x, time))  # eq. (2)

    def _v(self, net: nn.Module, x: Tensor, time: Tensor) -> Tensor:
        """The network's output, the v of eq. (2)."""
        v: Tensor = net(x, time)
        return v

    def _average(self) -> None:
        self.averaged.update(self.net)
