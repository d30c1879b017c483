"""Monte Carlo dropout (MC dropout)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import dropout as drop

from deepcanon.core import How, Labeled, Model, UsageError, eval_mode
from deepcanon.core.checks import at_least
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._ensemble import Ensemble
from deepcanon.methods._layers import later_layers

BY_CHANNEL = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class MCDropout(Ensemble):
    r"""Dropout at test time: the mean prediction over many dropout masks, with its standard deviation as uncertainty.

    Also known as: dropout at test time, Bayesian dropout.

    .. math:: p(y \mid x) \approx \frac1S \sum_{s=1}^S p(y \mid x, m_s) \qquad (1)

    .. math:: \tilde h = \frac{m_s \odot h}{1 - \rho}, \quad m_s \sim \operatorname{Bernoulli}(1 - \rho) \qquad (2)

    In training, a unit is dropped with probability :math:`\rho` for each example anew. To predict, :math:`S` masks are
    drawn once and for all, and each is one thinned network for all examples; so a prediction is a function of the
    example alone. The ``forward`` map is the whole network, in which nothing is dropped.

    References:
        | Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep Learning
          (Gal and Ghahramani, 2016), https://arxiv.org/abs/1506.02142
        | Dropout: a simple way to prevent neural networks from overfitting (Srivastava et al., 2014),
          https://jmlr.org/papers/v15/srivastava14a.html

    Arguments:
        model: The classifier or regression; the dropout layers that it has are used, too.
        dropout: The probability :math:`\rho` to drop an input of each linear or convolutional layer but the first, in
            addition to the model's own dropout; at 0 only the model's own layers drop.
        samples: The number :math:`S` of masks; at 0 the whole network predicts, which is standard dropout.
    """

    null: ClassVar[Mapping[str, Any]] = {"dropout": 0.0, "samples": 0}

    def __init__(self, model: Model[Any], dropout: float = 0.2, samples: int = 32) -> None:
        super().__init__(model)
        at_least(0, samples=samples)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a unit, from 0 to below 1 (got {dropout:g})")
        self.rate, self.samples = dropout, samples
        self.masks: Generator | None = None
        """The generator of the masks while a thinned network predicts, else None."""
        own = [layer for layer in model.modules() if isinstance(layer, (nn.Dropout, *BY_CHANNEL))]
        for layer in own:
            layer.register_forward_hook(self._drop_output)
        if dropout > 0:
            for later in later_layers(model, self.name()):
                later.register_forward_pre_hook(self._drop_input)
        elif samples > 0 and not own:
            raise UsageError(f"{model.name()} drops nothing; give mc_dropout a dropout above 0")

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model, samples=8), batch

    @property
    def averages(self) -> bool:
        return self.samples > 0

    @torch.no_grad()
    def predictions(self, *inputs: Tensor, how: How = "mean", generator: Generator | None = None) -> Tensor:
        """The prediction of each thinned network, (samples, B, ...), whose mean is the prediction."""
        with self._thinned():
            predicted = [
                self.model.predict(*inputs, how=how, generator=generator)  # type: ignore[operator]
                for _ in range(self.samples)
            ]
        return torch.stack(predicted)  # the terms of eq. (1)

    @contextmanager
    def _thinned(self) -> Iterator[None]:
        """Inside, every forward pass of the wrapped model drops by the next masks, the same ones every time."""
        self.masks = torch.Generator().manual_seed(0)
        try:
            with eval_mode(self.model):
                yield
        finally:
            self.masks = None

    def _drop_input(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x, *others = inputs
        if self.masks is not None:
            return (_masked(x, x.shape[1:], self.rate, self.masks), *others)
        return (drop(x, self.rate, training=self.training), *others)

    def _drop_output(self, layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        if self.masks is None:
            return output
        shape = output.shape[1:]
        units = torch.Size([shape[0], *(1 for _ in shape[1:])]) if isinstance(layer, BY_CHANNEL) else shape
        return _masked(output, units, layer.p, self.masks)


def _masked(x: Tensor, units: torch.Size, rate: float, masks: Generator) -> Tensor:
    """``x`` with the same units dropped in every example, and the others scaled up by the keep probability."""
    kept = torch.rand(units, generator=masks) >= rate
    return x * kept.to(x.device, x.dtype) / (1 - rate)  # eq. (2)
