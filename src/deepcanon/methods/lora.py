"""Low-rank adaptation (LoRA)."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from deepcanon.core import Descend, Model, Turn, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.fast_product import linear
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.core.turn import B
from deepcanon.methods._layers import chosen_layers, plus_product
from deepcanon.methods._method import Method


class LoRA(Method[B]):
    r"""Parameter-efficient fine-tuning: frozen weights, to each of which a trainable low-rank update is added.

    Also known as: low-rank adapters, parameter-efficient fine-tuning (PEFT).

    .. math:: W = W_0 + \frac\alpha r B A, \qquad A \in \mathbb R^{r \times d_\text{in}},
              \quad B \in \mathbb R^{d_\text{out} \times r} \qquad (1)

    :math:`A` is initialized as Gaussian noise and :math:`B` at zero, so that the model starts as it was. Only :math:`A`
    and :math:`B` are trained, :math:`r (d_\text{in} + d_\text{out})` parameters per layer. A convolution counts as the
    matrix that it applies to each patch, an embedding as the table that it is; layers that share their weight with
    another are left alone. ``unwrapped`` gives the plain model with its updates merged into its weights.

    References:
        | LoRA: Low-Rank Adaptation of Large Language Models (Hu et al., 2021), https://arxiv.org/abs/2106.09685

    Arguments:
        model: The model, as a rule a pretrained one: its own loss and turns are used.
        rank: The rank :math:`r` of the updates.
        alpha: The scale :math:`\alpha`; an update counts :math:`\alpha / r`, and at 0 not at all.
        layers: The layers to adapt, as patterns of their names.
    """

    wraps_trained: ClassVar[bool] = True
    compared = "fine-tuning"
    null: ClassVar[Mapping[str, Any]] = {"alpha": 0.0}

    def __init__(self, model: Model[Any], rank: int = 4, alpha: float = 8.0, layers: tuple[str, ...] = ("*",)) -> None:
        super().__init__(model)
        at_least(1, rank=rank)
        self.adapted = chosen_layers(model, candidates(model), layers, "that LoRA can adapt")
        self._trainable = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for name in self.adapted:
            layer = model.get_submodule(name)
            update = LowRank(layer.get_parameter("weight"), rank, alpha / rank)
            parametrize.register_parametrization(layer, "weight", update)
            if type(layer).forward is nn.Linear.forward:
                type(layer).forward = _two_paths  # a class that torch has made for this layer alone

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        model, batch = ToyClassifier.example()
        return cls(model), batch

    def turns(self) -> Sequence[Turn[B]]:
        """The wrapped model's turns, each on the updates of what it trains."""
        turns = self.model.turns()
        if any(not isinstance(turn, Descend) or turn.gradient is not None for turn in turns):
            raise UsageError(f"lora wraps a model that learns by backpropagation; {self.model.name()} does otherwise")
        left = [(turn, [p for p in turn.parameters if p.requires_grad]) for turn in turns if isinstance(turn, Descend)]
        return [replace(turn, parameters=learned) for turn, learned in left if learned]

    @torch.no_grad()
    def updates(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Of each adapted layer the pretrained weight and its update, both as matrices."""
        found = {}
        for name in self.adapted:
            layer = self.model.get_submodule(name)
            before = layer.get_parameter("parametrizations.weight.original").detach()
            found[name] = (before.flatten(1), (_weight(layer) - before).flatten(1))
        return found

    def unwrapped(self) -> Model[Any]:
        """A plain copy of the wrapped model with the updates merged into its weights."""
        plain = copy.deepcopy(self.model)
        for name in self.adapted:
            layer = plain.get_submodule(name)
            weight = _weight(layer).detach().clone()
            # By hand: torch's own removal takes the parametrization from the class, which copies share.
            layer.__class__ = parametrize.type_before_parametrizations(layer)
            del layer.parametrizations
            layer.weight = nn.Parameter(weight)
        for name, parameter in plain.named_parameters():
            parameter.requires_grad_(name in self._trainable)
        return plain


class LowRank(nn.Module):
    """The low-rank update of one weight, the adapter: it adds the product of a tall and a wide matrix."""

    def __init__(self, weight: Tensor, rank: int, scale: float) -> None:
        super().__init__()
        outputs, inputs = weight.flatten(1).shape
        self.scale = scale
        self.down = nn.Parameter(weight.new_empty(rank, inputs).normal_(std=1 / math.sqrt(inputs)))
        self.up = nn.Parameter(weight.new_zeros(outputs, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + (self.scale * (self.up @ self.down)).view_as(weight)  # eq. (1)


def _two_paths(layer: Any, x: Tensor) -> Tensor:
    """The output of an adapted linear layer by eq. (1); in training the update is a path of its own.

    The sum of both matrices is then never made, nor its gradient, which is as large as they are. In eval mode the layer
    computes what it does once the update is merged.
    """
    if not layer.training:
        return F.linear(x, layer.weight, layer.bias)
    (update,) = layer.parametrizations.weight
    y = linear(x, layer.parametrizations.weight.original, layer.bias)
    return plus_product(y, linear(x, update.down), update.up, update.scale)


def candidates(model: nn.Module) -> list[str]:
    """The names of the layers that can be adapted: those with a weight of their own that is a matrix or more.

    >>> candidates(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2)))
    ['0', '3']
    """
    named = {name: layer._parameters.get("weight") for name, layer in model.named_modules()}
    weights = {name: weight for name, weight in named.items() if weight is not None and weight.ndim >= 2}
    users = Counter(id(p) for layer in model.modules() for p in layer._parameters.values())
    return [name for name, weight in weights.items() if users[id(weight)] == 1]


def _weight(layer: nn.Module) -> Tensor:
    """The weight as the layer uses it, with its update."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight
