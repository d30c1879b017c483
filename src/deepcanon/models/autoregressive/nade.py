"""Neural autoregressive distribution estimator (NADE)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import at_least, flat
from deepcanon.core.precision import full
from deepcanon.distributions.base_rates import log_odds
from deepcanon.models.autoregressive._autoregressive import Autoregressive

CHUNK = 28
"""The number of values that are computed at once."""


class NADE(Autoregressive[Batch]):
    r"""An autoregressive model of binary data: one hidden layer per conditional, with weights shared by all of them.

    .. math:: p(x_d = 1 \mid x_{<d}) = \sigma(b_d + V_d h_d), \qquad
              h_d = \sigma(a_d), \quad a_1 = c, \quad a_{d+1} = a_d + x_d W_d \qquad (1)

    The hidden layer changes only where a value is 1, so the values after a 1 share one hidden layer up to the next 1.
    Therefore the values are computed in chunks in which each different hidden layer is computed once: a chunk takes
    three matrix products forward and six in all, in place of a step for every value, and images with little ink need
    few of them.

    On the fixed binarization of MNIST the paper (Uria et al., 2016) reports 88.33 nats per test image. This trains on
    the same images::

        deepcanon train nade --data binarized-mnist --threads 1 --watch nll

    The file of these data cannot be downloaded by name; docs/data.md says how to make it.

    References:
        | The Neural Autoregressive Distribution Estimator (Larochelle and Murray, 2011),
          https://proceedings.mlr.press/v15/larochelle11a.html
        | Neural Autoregressive Distribution Estimation (Uria et al., 2016), https://arxiv.org/abs/1605.02226

    Arguments:
        features: The number of values :math:`D`; their ordering is that of the data.
        units: The number of hidden units.
    """

    recipe = Recipe(lr=3e-3, schedule="linear", batch_size=100, epochs=80)

    def __init__(self, features: int, units: int = 500) -> None:
        super().__init__()
        at_least(1, features=features, units=units)
        self.features = features
        self.weight = nn.Parameter(torch.empty(features, units).uniform_(-1, 1) / features**0.5)  # W
        self.readout = nn.Parameter(torch.empty(features, units).uniform_(-1, 1) / units**0.5)  # V
        self.visible_bias = nn.Parameter(torch.zeros(features))  # b
        self.hidden_bias = nn.Parameter(torch.zeros(units))  # c

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(32, 6, generator=torch.Generator().manual_seed(0)).round()
        return cls(features=6, units=4), Batch(x)

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Initialize the visible bias with the base rates of the data."""
        self.visible_bias.copy_(log_odds(data, self.features, self.name()))

    def logits(self, x: Tensor) -> Tensor:
        x = flat(x, self.features)
        # The gradient with respect to a 0 needs every hidden layer; and an exported graph cannot see which ones differ.
        chunk_of = _all_layers if x.requires_grad or x.is_meta or torch.compiler.is_exporting() else _different_layers
        a = self.hidden_bias.expand(x.shape[0], -1)  # (B, units), at the first value of a chunk
        chunks = zip(x.split(CHUNK, 1), self.weight.split(CHUNK), self.readout.split(CHUNK), strict=True)
        parts = []
        for seen, weight, readout in chunks:
            parts.append(chunk_of(a, seen, weight, readout))
            a = full(torch.addmm(a, seen, weight))
        return torch.cat(parts, 1) + self.visible_bias

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        a = self.hidden_bias.repeat(n, 1)
        x = torch.rand(n, self.features, generator=generator, device=a.device, dtype=a.dtype)
        for d in range(self.features):
            logit = self.visible_bias[d] + a.sigmoid() @ self.readout[d]  # eq. (1)
            x[:, d] = (x[:, d] < logit.sigmoid()).to(x.dtype)
            a.addr_(x[:, d], self.weight[d])
        return x


def _different_layers(a: Tensor, x: Tensor, weight: Tensor, readout: Tensor) -> Tensor:
    """The products :math:`V_d h_d` for the values x of a chunk, (B, chunk), from the S hidden layers that differ."""
    new = pad(x[:, :-1] != 0, (1, 0), value=True)  # where a layer is not that of the value before; (B, chunk)
    row, start = new.nonzero(as_tuple=True)  # of each of the S layers
    before = x[row] * (torch.arange(x.shape[1], device=x.device) < start.unsqueeze(1))  # (S, chunk)
    h = a.index_select(0, row).addmm_(before, weight).sigmoid_()  # (S, units), in place, eq. (1)
    which = new.flatten().cumsum(0).view_as(new) - 1  # the layer of each value
    return full(h @ readout.T).gather(0, which)


def _all_layers(a: Tensor, x: Tensor, weight: Tensor, readout: Tensor) -> Tensor:
    """The same from a hidden layer for every value."""
    before = x.unsqueeze(1) * x.new_ones(len(weight), len(weight)).tril(-1)  # (B, chunk, chunk)
    h = (a.unsqueeze(1) + before @ weight).sigmoid()  # (B, chunk, units), eq. (1)
    return full((h * readout).sum(-1))
