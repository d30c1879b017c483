"""Adapters (bottleneck adapters)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from deepcanon.core import Descend, Model, Turn, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.modes import eval_mode
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.core.turn import B
from deepcanon.methods._layers import chosen_layers, plus_product, weight_layers
from deepcanon.methods._method import Method, descents

NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)


class Adapters(Method[B]):
    r"""Parameter-efficient fine-tuning: a small bottleneck network behind each of some layers, all else frozen.

    Also known as: adapter tuning, parameter-efficient transfer learning.

    The output h of a layer becomes

    .. math:: h + s\, \bigl(W_2 \operatorname{ReLU}(W_1 h + b_1) + b_2\bigr), \qquad
              W_1 \in \mathbb R^{m \times d}, \quad W_2 \in \mathbb R^{d \times m}. \qquad (1)

    :math:`W_2` and :math:`b_2` begin at zero, so that the model starts as it was. Adapters have
    :math:`2 m d + d + m` parameters each. Unlike those of low-rank adaptation they stay layers of their own, since a
    nonlinearity cannot be merged into a weight. Behind a convolution an adapter acts on the channels of each pixel.

    References:
        | Parameter-Efficient Transfer Learning for NLP (Houlsby et al., 2019), https://arxiv.org/abs/1902.00751

    Arguments:
        model: The model, as a rule a pretrained one: its own loss and turns are used.
        bottleneck: The number m of units of each adapter.
        layers: The layers that get an adapter, as patterns of their names; the last layer is adapted by training it.
        scale: The factor :math:`s`; at 0 adapters do nothing.
        head: Whether the last layer is trained, too.
        norms: Whether gains and biases of normalizations are trained, too.
    """

    wraps_trained: ClassVar[bool] = True
    compared = "fine-tuning"
    null: ClassVar[Mapping[str, Any]] = {"scale": 0.0, "head": False, "norms": False}

    def __init__(
        self,
        model: Model[Any],
        bottleneck: int = 8,
        layers: tuple[str, ...] = ("*",),
        scale: float = 1.0,
        head: bool = True,
        norms: bool = True,
    ) -> None:
        super().__init__(model)
        at_least(1, bottleneck=bottleneck)
        *there, last = weight_layers(model) or ("",)
        self.adapted = chosen_layers(model, there, layers, "that an adapter can follow")
        self.scale, self.bottleneck = scale, bottleneck
        trained = {id(p) for p in (model.get_submodule(last).parameters() if head and last else ())}
        kinds = [part for part in model.modules() if isinstance(part, NORMS)] if norms else []
        trained |= {id(parameter) for part in kinds for parameter in part.parameters()}
        for parameter in model.parameters():
            parameter.requires_grad_(parameter.requires_grad and id(parameter) in trained)
        self.bottlenecks = nn.ModuleDict()
        for name in self.adapted:
            layer = model.get_submodule(name)
            adapter = Bottleneck(layer.weight, bottleneck, scale)  # type: ignore[arg-type]
            self.bottlenecks[name.replace(".", "_")] = adapter
            layer.register_forward_hook(adapter.follow)

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        model, batch = ToyClassifier.example()
        return cls(model), batch

    def prepare(self, data: Iterable[B]) -> None:
        super().prepare(data)
        with torch.random.fork_rng(devices=[]), eval_mode(self), torch.enable_grad():  # nothing is counted twice
            few = next(iter(data)).select(torch.arange(1))
            for turn in self.turns():
                assert isinstance(turn, Descend)
                sum(turn.loss(few).values(), torch.zeros(())).backward()
        found = zip(self.adapted, self.bottlenecks.values(), strict=True)
        idle = [name for name, part in found if part.get_parameter("up.bias").grad is None]
        self.zero_grad()
        if idle:
            raise UsageError(
                f"adapters would have no part in the loss of {self.model.name()}: {', '.join(idle)}; "
                "leave them out by layers=..."
            )

    def turns(self) -> Sequence[Turn[B]]:
        """The wrapped model's turns, on the adapters and on what is not frozen."""
        return [
            replace(turn, parameters=(*(p for p in turn.parameters if p.requires_grad), *self.bottlenecks.parameters()))
            for turn in descents(self.model, self.name())
        ]

    def unwrapped(self) -> Model[Any]:
        raise UsageError(
            f"adapters are layers of their own, which {self.model.name()} has no place for: keep them, or take lora, "
            "whose updates are merged into the weights"
        )


class Bottleneck(nn.Module):
    """An adapter: a small network with a skip connection behind a layer."""

    def __init__(self, weight: Tensor, units: int, scale: float) -> None:
        super().__init__()
        outputs = weight.shape[0]
        like: dict[str, Any] = {"device": weight.device, "dtype": weight.dtype}
        self.scale, self.channels_first = scale, weight.ndim > 2
        self.down = nn.Linear(outputs, units, **like)
        self.up = nn.Linear(units, outputs, **like)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, h: Tensor) -> Tensor:
        if self.channels_first:
            h = h.movedim(1, -1)
        units = pad(self.down(h).relu(), (0, 1), value=1.0)  # the last one carries the bias
        h = plus_product(h, units, torch.column_stack([self.up.weight, self.up.bias]), self.scale)  # eq. (1)
        return h.movedim(-1, 1) if self.channels_first else h

    def follow(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """The output of the layer, adapted: a hook of it."""
        adapted: Tensor = self(output)
        return adapted
