"""Samplers of diffusion models: from noise to data through falling noise levels, by the predictions of a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Level(NamedTuple):
    r"""A noise level: the ``signal`` :math:`\sqrt{\bar\alpha}` and the ``noise`` :math:`\sqrt{1 - \bar\alpha}` in x."""

    signal: Tensor
    noise: Tensor

    def part(self, i: int) -> Level:
        """The level at one place of a path of them, (1, 1) each."""
        return Level(self.signal[i : i + 1], self.noise[i : i + 1])


class Prediction(NamedTuple):
    r"""The predicted ``velocity`` :math:`v = \sqrt{\bar\alpha} \, \varepsilon - \sqrt{1 - \bar\alpha} \, x_0`, (B, D).

    ``share`` says where the variance of the reverse process lies between its bounds, if it is learned.
    """

    velocity: Tensor
    share: Tensor | None = None

    def noise(self, x: Tensor, level: Level) -> Tensor:
        """The predicted noise in x."""
        return level.noise * x + level.signal * self.velocity

    def data(self, x: Tensor, level: Level) -> Tensor:
        """The predicted data in x."""
        return level.signal * x - level.noise * self.velocity


Predict = Callable[[Tensor, int], Prediction]
"""The prediction for x, (B, D), at a place of the path of noise levels, whose last is that of the data."""


def stochastic(
    x: Tensor,
    predict: Predict,
    path: Level,
    eta: float,
    std: Callable[[int, Prediction], Tensor] | None,
    fresh: Callable[[], Tensor],
) -> Tensor:
    r"""The reverse process, which adds noise at each step, or with :math:`\eta = 0` the DDIM sampler, which adds none.

    .. math:: x_s = \sqrt{\bar\alpha_s} \hat x_0 + \sqrt{1 - \bar\alpha_s - \sigma^2} \, \hat\varepsilon + \sigma z,
              \qquad \sigma^2 = \eta^2 \frac{1 - \bar\alpha_s}{1 - \bar\alpha_t} \left( 1 -
              \frac{\bar\alpha_t}{\bar\alpha_s} \right)

    With :math:`\eta = 1` and every timestep the mean is that of the posterior; ``std`` takes the place of the last σ.
    ``fresh`` draws the noise z.

    References:
        | Denoising Diffusion Implicit Models (Song et al., 2021), https://arxiv.org/abs/2010.02502
    """
    signal, noise = path.signal.square(), path.noise.square()
    variance = eta**2 * noise[1:] / noise[:-1] * (1 - signal[:-1] / signal[1:])
    keep = path.signal[1:] / path.signal[:-1]  # of x_t
    change = (noise[1:] - variance).clamp_min(0).sqrt() - keep * path.noise[:-1]  # by the predicted noise
    for i in range(len(keep)):
        predicted = predict(x, i)
        drift = keep[i] * x + change[i] * predicted.noise(x, path.part(i))
        if eta > 0:
            scale = variance[i].sqrt() if std is None else std(i, predicted)
            drift = drift + scale * fresh()
        x = drift
    return x


def heun(x: Tensor, predict: Predict, path: Level) -> Tensor:
    r"""Heun's method, of order 2, for the probability flow, :math:`dx / d\varphi = v` with the angle :math:`\varphi`.

    It asks for two predictions at each step.

    References:
        | Elucidating the Design Space of Diffusion-Based Generative Models (Karras et al., 2022; Heun's method),
          https://arxiv.org/abs/2206.00364
        | Progressive Distillation for Fast Sampling of Diffusion Models (Salimans and Ho, 2022; the angle),
          https://arxiv.org/abs/2202.00512
    """
    angle = torch.atan2(path.noise, path.signal)
    for i, size in enumerate(angle.diff(dim=0)):
        first = predict(x, i).velocity
        second = predict(x + size * first, i + 1).velocity
        x = x + 0.5 * size * (first + second)
    return x


def dpm_solver(x: Tensor, predict: Predict, path: Level) -> Tensor:
    r"""DPM-Solver++ of order 2 with two steps: the data are predicted, and extrapolated along :math:`\lambda`.

    .. math:: x_s = \frac{\sigma_s}{\sigma_t} x_t + a_s (1 - e^{-h}) \left( \hat x_0 + \tfrac{h}{2 h'}
              (\hat x_0 - \hat x_0') \right), \qquad \lambda = \log \frac{a}{\sigma}, \quad h = \lambda_s - \lambda_t

    A prime marks the step before. The first step, and one to data without noise, are of order 1.

    References:
        | DPM-Solver++: Fast Solver for Guided Sampling of Diffusion Probabilistic Models (Lu et al., 2022),
          https://arxiv.org/abs/2211.01095
    """
    step = path.signal.log().sub(path.noise.log()).diff(dim=0)  # h, infinite at the last
    before: Tensor | None = None
    for i, h in enumerate(step):
        data = predict(x, i).data(x, path.part(i))
        ahead = (
            data if before is None else data + torch.where(h < torch.inf, 0.5 * h / step[i - 1], 0) * (data - before)
        )
        x = path.noise[i + 1] / path.noise[i] * x - path.signal[i + 1] * torch.expm1(-h) * ahead
        before = data
    return x
