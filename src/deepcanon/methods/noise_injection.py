"""Noise injection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from deepcanon.augment.perturbations import noisy
from deepcanon.core import Labeled, Model, Terms, Turn, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.core.turn import B
from deepcanon.methods._layers import classes_of, later_layers
from deepcanon.methods._method import Method, descents


class NoiseInjection(Method[B]):
    r"""Regularization by random noise on inputs, hidden activations, weights or targets in training.

    Also known as: training with noise, jittering, label noise.

    .. math:: \min_\theta \operatorname E_{\epsilon, \zeta, \tilde y} \,
              \ell\bigl(f_{\theta + \zeta}(x + \epsilon), \tilde y\bigr), \qquad
              \epsilon \sim \mathcal N(0, \sigma^2 I) \qquad (1)

    :math:`\epsilon` is the noise on inputs (and, alike, on activations), :math:`\zeta` that on weights and
    :math:`\tilde y` the noisy target. Noise is drawn anew for each example at each step, that on the weights for each
    step; in eval mode there is none. On the input of a linear model with squared error, noise adds
    :math:`\sigma^2 \lVert W \rVert^2` to the expected loss: it is ridge regression. A class that is replaced by a
    uniform one with probability p has the expected loss of label smoothing.

    References:
        | Training with Noise is Equivalent to Tikhonov Regularization (Bishop, 1995),
          https://doi.org/10.1162/neco.1995.7.1.108
        | Rethinking the Inception Architecture for Computer Vision (Szegedy et al., 2016),
          https://arxiv.org/abs/1512.00567

    Arguments:
        model: The model, whose own loss and turns are used.
        inputs: The standard deviation :math:`\sigma` of Gaussian noise on the inputs.
        activations: The standard deviation of noise on the inputs of each linear or convolutional layer but the first.
        weights: The standard deviation of noise on the weights, biases left out.
        targets: For classes, the probability to replace one by a class drawn uniformly from all (label noise); for real
            targets, the standard deviation of noise on them.
    """

    null: ClassVar[Mapping[str, Any]] = {"inputs": 0.0, "activations": 0.0, "weights": 0.0, "targets": 0.0}

    def __init__(
        self,
        model: Model[Any],
        inputs: float = 0.1,
        activations: float = 0.0,
        weights: float = 0.0,
        targets: float = 0.0,
    ) -> None:
        super().__init__(model)
        strengths = {"inputs": inputs, "activations": activations, "weights": weights, "targets": targets}
        for name, strength in strengths.items():
            if strength < 0:
                raise UsageError(f"{name} must be 0 or more (got {strength:g})")
        if targets > 1 and classes_of(model) is not None:
            raise UsageError(f"targets is the probability to replace a class, at most 1 (got {targets:g})")
        self.on_inputs, self.on_activations = inputs, activations
        self.on_weights, self.on_targets = weights, targets
        if activations > 0:
            for layer in later_layers(model, self.name()):
                layer.register_forward_pre_hook(self._with_noise)

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        model, batch = ToyClassifier.example()
        return cls(model, inputs=0.1, activations=0.1, weights=0.01, targets=0.1), batch

    def turns(self) -> Sequence[Turn[B]]:
        return [replace(turn, loss=partial(self.around, turn.loss)) for turn in descents(self.model, self.name())]

    def around(self, loss: Callable[[B], Terms], batch: B) -> Terms:
        if not self.training:
            return loss(batch)
        noisy_batch = self._noisy(batch)
        if self.on_weights == 0:
            return loss(noisy_batch)
        weights = {
            f"model.{name}": noisy(value, self.on_weights)
            for name, value in self.model.named_parameters()
            if value.ndim >= 2
        }
        terms: Terms = functional_call(_Around(self.model), weights, (loss, noisy_batch))  # eq. (1)
        return terms

    def _noisy(self, batch: Any) -> Any:
        """The batch with noise on its inputs and targets."""
        if self.on_inputs > 0:
            batch = replace(batch, x=noisy(batch.x, self.on_inputs))
        if self.on_targets > 0:
            if not isinstance(batch, Labeled):
                raise UsageError(f"noise on the targets needs labeled examples; there are {batch.noun}")
            batch = replace(batch, y=self._noisy_targets(batch.y))
        return batch

    def _noisy_targets(self, y: Tensor) -> Tensor:
        if y.is_floating_point():
            return noisy(y, self.on_targets)
        classes = classes_of(self.model)
        if classes is None:
            raise UsageError(f"how many classes {self.model.name()} predicts is not known; set targets to 0")
        replaced = torch.rand(y.shape, device=y.device) < self.on_targets
        return torch.where(replaced, torch.randint(classes, y.shape, device=y.device), y)

    def _with_noise(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if not self.training:
            return inputs
        hidden, *others = inputs
        return (noisy(hidden, self.on_activations), *others)


class _Around(nn.Module):
    """A module that holds a model, so that torch can compute one of its losses with other weights than its own."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, loss: Callable[[Any], Terms], batch: Any) -> Terms:
        return loss(batch)
