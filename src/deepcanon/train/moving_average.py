"""Exponential moving average (EMA) of the weights, which often generalizes better than the last ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Average:
    r"""The exponential moving average :math:`\bar\theta \leftarrow d\,\bar\theta + (1 - d)\,\theta`, or nothing.

    In step t the decay d is at most :math:`(1 + t) / (10 + t)`: of a short training, too, the average must not be
    mostly the weights that it began with.

    References:
        | Acceleration of stochastic approximation by averaging (Polyak & Juditsky, 1992),
        | https://doi.org/10.1137/0330046

    >>> layer = nn.Linear(1, 1)
    >>> average = Average(layer, decay=0.0)
    >>> _ = layer.weight.data.fill_(3.0)
    >>> average.update(step=1)
    >>> average.weights[0].item()
    3.0
    """

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self.decay = decay
        self.live: list[Tensor] = list(model.parameters()) if decay is not None else []
        self.weights = [parameter.detach().clone() for parameter in self.live]

    @property
    def active(self) -> bool:
        return self.decay is not None

    @torch.no_grad()
    def take_over(self) -> None:
        """Begin the average at the weights as they are now."""
        for average, parameter in zip(self.weights, self.live, strict=True):
            average.copy_(parameter)

    def update(self, step: int) -> None:
        """Let the weights after a step, counted from 1, into the average."""
        if self.decay is not None:
            with torch.no_grad():
                torch._foreach_lerp_(self.weights, self.live, 1 - min(self.decay, (1 + step) / (10 + step)))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The averaged weights in the model, and afterwards the live ones again."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def copy_to_model(self) -> None:
        for parameter, average in zip(self.live, self.weights, strict=True):
            parameter.copy_(average)

    def _swap(self) -> None:
        for place, parameter in enumerate(self.live):
            parameter.data, self.weights[place] = self.weights[place], parameter.data

    def state(self) -> list[Tensor]:
        return self.weights

    def restore(self, state: list[Any]) -> None:
        for average, saved in zip(self.weights, state, strict=True):
            average.copy_(saved)
