"""Autoregression of time series, AR(p)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Recipe, Series
from deepcanon.core.checks import at_least
from deepcanon.core.series import steps_from
from deepcanon.models.recurrent._forecaster import Forecaster, State
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense


class Autoregression(Forecaster):
    r"""A model of time series in which the mean of a step is a function of the last p steps: linear, or a network.

    Also known as: AR(p), vector autoregression (VAR), ARX, nonlinear autoregression (NAR), time series forecasting.

    .. math:: z_t / \nu = f(z_{t-1} / \nu, \dots, z_{t-p} / \nu, c_t, e) + \sigma \varepsilon_t \qquad (1)

    The targets are the series itself, shifted by one step. Without ``hidden`` layers f is linear, and for one series
    and Gaussian noise the best likelihood is that of least squares; of several series, each counts in units of its own
    scale :math:`\nu`, which is 1 plus the mean absolute value of its given steps. The covariates :math:`c_t` are known
    of the future too, and e is an embedding of what the series is of. What else the likelihood needs, as
    :math:`\sigma`, is the same at every step. Steps before the first count as zero.

    A linear baseline for recurrent forecasters, in half a minute on one core::

        deepcanon train autoregression --data series
        deepcanon compare autoregression deepar --data series --out comparison

    References:
        | On a method of investigating periodicities in disturbed series (Yule, 1927),
          https://doi.org/10.1098/rsta.1927.0007

    Arguments:
        features: The number of values at each step.
        covariates: The number of covariates at each step.
        statics: The number of different ids of series, of which each has an embedding.
        order: The number p of steps that a prediction looks back.
        hidden: The widths of the hidden layers; without any, f is linear.
        activation: The activation of the hidden layers.
        embedding: The width of the embedding of an id.
        scaled: Whether each series counts in units of its own scale, as series of very different sizes should; without,
            :math:`\nu = 1`, and all are in the units of the data.
        head: The likelihood of a step: gaussian, student_t, negative_binomial, or "auto", which is negative_binomial
            if the training values are counts, and else student_t.
    """

    recipe = Recipe(lr=1e-2, schedule="cosine", batch_size=64, epochs=20)

    def __init__(
        self,
        features: int,
        covariates: int = 0,
        statics: int = 0,
        order: int = 24,
        hidden: tuple[int, ...] = (),
        activation: Activation = "relu",
        embedding: int = 8,
        scaled: bool = True,
        head: str = "student_t",
    ) -> None:
        super().__init__(features, covariates, statics, embedding, head)
        at_least(1, order=order)
        self.order, self.scaled = order, scaled
        known = covariates + (embedding if statics else 0)
        self.mean = dense(order * features + known, features, hidden, activation=activation)
        self.others = nn.Parameter(torch.zeros((self.likelihood.numbers - 1) * features))  # the spread, among others

    def read(self, values: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        past, known = self._parted(values)
        before = past.new_zeros(len(past), self.order, self.features) if state is None else state[0].transpose(0, 1)
        steps = torch.cat([before, past], 1)  # (B, order + t, features)
        last = (
            steps[:, 1:].unfold(1, self.order, 1).flatten(2)
        )  # the last p steps before each, (B, t, features * order)
        mean = self.mean(torch.cat([last, known], 2))  # eq. (1)
        outputs = torch.cat([mean, self.others.expand(*mean.shape[:2], -1)], 2)
        return outputs, (steps[:, -self.order :].transpose(0, 1),)

    def state_after(self, values: Tensor, lengths: Tensor) -> State:
        past, _ = self._parted(values)
        steps = torch.cat([past.new_zeros(len(past), self.order, self.features), past], 1)
        return (steps_from(steps, lengths, self.order).transpose(0, 1),)

    def scale_of(self, series: Series) -> Tensor:
        return super().scale_of(series) if self.scaled else torch.ones_like(series.x[:, 0])

    def _parted(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The value before each step, and its covariates with the embedding; the size of the scale is left out."""
        past, covariates, _, embedded = values.split(
            [self.features, self.covariates, self.features, self.width - 2 * self.features - self.covariates], 2
        )
        return past, torch.cat([covariates, embedded], 2)

    @classmethod
    def example(cls) -> tuple[Self, Series]:
        start = torch.arange(12.0).unsqueeze(1)
        x = (3 + torch.sin(start + torch.arange(10.0))) * (1 + start)
        lengths = 5 + torch.arange(12) % 6
        return cls(features=1, order=3), Series(x.unsqueeze(2), lengths, 2 + torch.arange(12) % 3)
