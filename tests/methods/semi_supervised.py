"""What tests of semi-supervised methods share: a linear classifier with known numbers, and gains of paired seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core import Model, SemiBatch
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.linear.softmax_regression import SoftmaxRegression


def linear() -> tuple[SoftmaxRegression, SemiBatch]:
    """A softmax regression with random weights in double precision, and examples of which some have labels."""
    random = torch.Generator().manual_seed(0)
    model = SoftmaxRegression(features=3, classes=4).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, generator=random)
    x = torch.randn(40, 3, generator=random, dtype=torch.float64)
    return model, SemiBatch(x[:8], torch.arange(8) % 4, x[8:])


def mixed_targets(
    mixed: npt.NDArray[np.float64], x: npt.NDArray[np.float64], q: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The targets of mixed examples: each lies between x of its row and another one, which says how q was mixed."""
    targets = np.empty_like(q)
    for row, place in enumerate(mixed):
        line = x - x[row]
        share = 1 - np.clip(line @ (place - x[row]) / np.maximum((line**2).sum(1), 1e-12), 0, 0.5)
        gap = np.abs(share[:, None] * x[row] + (1 - share[:, None]) * x - place).sum(1)
        other = int(gap.argmin())
        assert gap[other] < 1e-9
        targets[row] = share[other] * q[row] + (1 - share[other]) * q[other]
    return targets


def gains(name: str, data: str, seeds: tuple[int, ...], steps: int = 1000) -> list[float]:
    """How much more is right than with the same labels alone, from the same start, seed by seed."""
    method = catalogue.find(name)
    return [_accuracy(method, data, seed, steps) - _of_labels_alone(data, seed, steps) for seed in seeds]


@cache
def _of_labels_alone(data: str, seed: int, steps: int) -> float:
    """The supervised run, which every method is without its term, to the bit (the laws of methods): trained once."""
    return _accuracy(lambda model: model, data, seed, steps)


def _accuracy(wrap: Callable[..., Model[Any]], data: str, seed: int, steps: int) -> float:
    few = dc.load_data(f"{data},seed={seed}")
    torch.manual_seed(seed)
    model = wrap(model=MLP(features=few.sizes["features"], classes=few.sizes["classes"], hidden=(64, 64)))
    settings: dict[str, Any] = {"steps": steps, "lr": 1e-2, "seed": seed, "keep_weights": "last", "quiet": True}
    return dc.fit(model, few, **settings).test["accuracy"]
