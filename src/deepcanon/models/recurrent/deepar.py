"""DeepAR."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from deepcanon.core import Recipe, Series
from deepcanon.distributions.scaled import Link
from deepcanon.models.recurrent._forecaster import Forecaster, State
from deepcanon.models.recurrent._recurrent import check_sizes, fitting_precision
from deepcanon.nn.lstm import lstm


class DeepAR(Forecaster):
    r"""A recurrent network that forecasts many time series: each step is drawn from a distribution given the past.

    Also known as: autoregressive recurrent network, probabilistic forecasting, time series forecasting.

    .. math:: h_t = \mathrm{LSTM}(h_{t-1}, [z_{t-1} / \nu, c_t, \log \nu, e]), \qquad
              p(z_t \mid z_{<t}) = \ell(z_t \mid \theta(h_t), \nu) \qquad (1)

    One network is learned from all series. It reads the value before in units of the scale :math:`\nu` of the series,
    which is 1 plus the mean absolute value of its given steps, the covariates :math:`c_t`, which are known of the
    future too, and an embedding e of what the series is of. The likelihood :math:`\ell` is Gaussian, Student-t for
    values with outliers, or negative binomial for counts; unless it is given, the training series say whether their
    values are counts, and if not it is a Student-t. A forecast consists of sample paths: each step is drawn and
    then read like a true one, and quantiles are those of the paths.

    The mean of counts is :math:`\nu e^o` of an output o (a log link), and past counts are read by their logarithms:
    season, weekday and price multiply what is sold, and a network of logarithms has only to add. Salinas et al. have
    :math:`\nu \log(1 + e^o)` and read counts as they are, by ``link`` softplus.

    The likelihood counts the steps after the given ones and is exact. Salinas et al. also count the given steps, of
    which the scale has seen the values.

    Series of counts in many sizes, in about a minute on one core, and the quantiles of the steps to come::

        deepcanon train deepar --data series
        deepcanon forecast runs/deepar-series --steps 24 --out forecast.csv

    References:
        | DeepAR: Probabilistic forecasting with autoregressive recurrent networks (Salinas et al., 2020),
          https://arxiv.org/abs/1704.04110

    Arguments:
        features: The number of values at each step.
        covariates: The number of covariates at each step.
        statics: The number of different ids of series, of which each has an embedding.
        units: The number of cells of a layer.
        layers: The number of layers.
        dropout: The dropout probability between layers, never from step to step.
        embedding: The width of the embedding of an id.
        head: The likelihood of a step: gaussian, student_t, negative_binomial, or "auto", which is negative_binomial
            if the training values are whole numbers from 0 on that change as much as counts do, and else student_t.
        lags: How many steps before a step the values are that it reads: 1 is the value before, 24 that of the day
            before if steps are hours. Lags longer than what is given are zero at first.
        differenced: Whether changes are modeled, in units of the mean absolute change, as suits series that wander
            without a level of their own: the distribution of a step is around the value before it.
        link: How the mean of a count follows from the network: "log", unless another is given, or "softplus" as in the
            paper.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine:warmup=50", batch_size=64, epochs=15, clip="norm:1.0", ema=0.995)

    def __init__(
        self,
        features: int,
        covariates: int = 0,
        statics: int = 0,
        units: int = 64,
        layers: int = 1,
        dropout: float = 0.0,
        embedding: int = 8,
        head: str = "auto",
        lags: tuple[int, ...] = (1,),
        differenced: bool = False,
        link: Link | None = None,
    ) -> None:
        super().__init__(features, covariates, statics, embedding, head, lags, differenced, link)
        check_sizes(units, layers, dropout)
        self.recurrent = lstm(
            self.width, units, layers, dropout=dropout, coupled=False, peepholes=False, memory=None
        )  # fmt: skip
        self.parameters_of = nn.Linear(units, self.likelihood.numbers * features)

    def read(self, values: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        with fitting_precision(values.device):
            hidden, state = self.recurrent(values.transpose(0, 1), state)  # eq. (1)
            return self.parameters_of(hidden).transpose(0, 1), state

    def state_after(self, values: Tensor, lengths: Tensor) -> State:
        packed = pack_padded_sequence(values, lengths.cpu(), batch_first=True, enforce_sorted=False)
        with fitting_precision(values.device):
            state: State = self.recurrent(packed)[1]
        return state

    @classmethod
    def example(cls) -> tuple[Self, Series]:
        start = torch.arange(12.0).unsqueeze(1)
        x = (3 + torch.sin(start + torch.arange(10.0))) * (1 + start)
        lengths = 5 + torch.arange(12) % 6
        return cls(features=1, units=6), Series(x.unsqueeze(2), lengths, 2 + torch.arange(12) % 3)
