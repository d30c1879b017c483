"""Models that learn to remove noise: a network at unit scale, the average of its weights, and the probability flow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Density, Descend, LikelihoodKind, Sampler, Support, Turn, UsageError
from deepcanon.core.checks import at_least, flat, of_reals, one_of
from deepcanon.core.turn import B
from deepcanon.nn.averaged import Averaged
from deepcanon.nn.probability_flow import axes, random_signs, to_data, to_noise
from deepcanon.nn.rescale import Rescale, mean_and_std
from deepcanon.nn.time_mlp import ClassTimeMLP, TimeMLP
from deepcanon.nn.u_net import UNet

Network = Literal["mlp", "unet"]

FEW = 8
"""Up to how many features the divergence of the flow is exact; beyond, it costs much more than the flow itself."""
MLP, UNET = (256, 256, 256), (32, 64)
"""The widths of the networks if none are given: of the residual blocks, and the channels at each resolution."""


def denoising_network(
    network: Network,
    features: int,
    image: tuple[int | None, int | None, int | None],
    hidden: tuple[int, ...] | None,
    classes: int | None = None,
    outputs: int = 1,
) -> nn.Module:
    """The network by its name, of rows of features at times and, where there are classes, given a class.

    ``image`` are the channels, the height and the width of an example, which a U-Net needs, ``hidden`` the widths of
    the network, and ``outputs`` how many numbers it gives for each feature.
    """
    one_of(get_args(Network), network=network)
    if network == "unet":
        channels, height, width = image
        if channels is None or height is None or width is None:
            raise UsageError("a U-Net is a network of images; take images as data, or network=mlp")
        return UNet((channels, height, width), UNET if hidden is None else hidden, classes, outputs)
    widths = MLP if hidden is None else hidden
    if classes is None:
        return TimeMLP(features, widths, outputs * features)
    return ClassTimeMLP(features, widths, classes, outputs * features)


class Denoising(Sampler[B]):
    """A model of data with noise: a network on standardized data, and an exponential moving average of its weights.

    The average (EMA) is what all methods use but the loss. Data are standardized to zero mean and unit variance.
    """

    net: nn.Module
    averaged: Averaged

    def __init__(self, features: int) -> None:
        super().__init__()
        at_least(1, features=features)
        self.features = features
        self.to_standard = Rescale(features)

    def _set_network(self, net: nn.Module, average: float) -> None:
        """Take the network, and start the exponential moving average of its weights with this decay."""
        if not 0 <= average < 1:
            raise UsageError(f"average is a decay from 0 to below 1 (got {average})")
        self.net = net
        self.averaged = Averaged(net, average)

    def turns(self) -> Sequence[Turn[B]]:
        return [Descend(self.loss, self.net.parameters(), after=self._average)]

    @property
    def support(self) -> Support:
        return "real"

    def prepare(self, data: Iterable[B]) -> None:
        """Take the mean and the standard deviation of the data, against which the noise is measured."""
        mean, std = mean_and_std(of_reals(data, self.name()))
        if std > 0:
            self.to_standard.set(1 / std, -mean / std)

    def _average(self) -> None:
        self.averaged.update(self.net)

    def _noise(self, n: int, generator: Generator | None) -> Tensor:
        like = self.to_standard.shift
        return torch.randn(n, self.features, generator=generator, device=like.device, dtype=like.dtype)

    def _standard(self, x: Tensor) -> Tensor:
        standard: Tensor = self.to_standard(flat(x, self.features))
        return standard

    def _to_data(self, x: Tensor) -> Tensor:
        return self.to_standard.inverse(x)


class FlowDensity(Denoising[B], Density[B]):
    r"""A denoising model whose probability flow gives it an exact likelihood.

    .. math:: \log p(x) = \log N(y(\varphi_T); 0, I) + \int_0^{\varphi_T} \operatorname{tr}
              \frac{\partial v}{\partial y} \, d\varphi, \qquad \frac{dy}{d\varphi} = v(y, \varphi), \; y(0) = x

    A leaf gives the velocity v at angles, ``_flow``, and the last angle. The trace is exact for few features, else
    an unbiased estimate by random directions.
    """

    tolerance: float = 1e-5
    """The error, relative and absolute, that a step of the solver may have."""

    def _flow(self, angle: Tensor, y: Tensor) -> Tensor:
        """The velocity v at the angles (B,) and the points (B, features) of unit scale."""
        raise NotImplementedError

    def _last_angle(self) -> float:
        """The angle of pure noise."""
        raise NotImplementedError

    def _flow_log_prob(self, x: Tensor, samples: int | None = None, generator: Generator | None = None) -> Tensor:
        """The log-likelihood by the probability flow, (B,): exact, or by so many random directions for each example."""
        y = self._standard(x)
        exact = self._flow_kind() == "exact"
        directions = axes(y) if exact else random_signs(y, samples or 1, generator)
        z, change = to_noise(self._flow, y, self._last_angle(), directions, tolerance=self.tolerance)
        prior = -0.5 * (z.square().sum(-1) + self.features * math.log(2 * math.pi))
        return prior + change + self.features * self.to_standard.scale.log()

    def _flow_sample(self, n: int, generator: Generator | None) -> Tensor:
        """Examples moved from noise to data along the probability flow, (n, features)."""
        noise = self._noise(n, generator)
        return self._to_data(to_data(self._flow, noise, self._last_angle(), tolerance=self.tolerance))

    def _flow_kind(self) -> LikelihoodKind:
        return "exact" if self.features <= FEW else "estimate"
