"""Magnitude pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from deepcanon.core import Absorb, Model, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.core.turn import B
from deepcanon.methods._layers import built_like
from deepcanon.methods._method import Method, descents


class Pruning(Method[B]):
    r"""Iterative magnitude pruning: the smallest weights are set to zero, the others rewound to their initial values.

    Also known as: sparsification, iterative magnitude pruning, lottery tickets.

    .. math:: m = \mathbb 1\bigl[\lvert \theta \rvert > t_s\bigr] \qquad (1)

    .. math:: \theta \leftarrow m \odot \theta_0 \qquad (2)

    The training is split into equal rounds, each with a fresh optimizer. After all but the last, so many of the
    smallest weights are set to zero for good that the sparsity :math:`s` is reached after the last cut, each cut taking
    the same share of the weights that are left. Then these are rewound to their values :math:`\theta_0` before the
    first step: by the lottery ticket hypothesis a subnetwork that so learns as well as the whole network, a winning
    ticket, exists. Biases are never pruned. Exactly :math:`\operatorname{round}(s N)` of :math:`N` weights, those of a
    layer or of all, are zero in the end.

    References:
        | The Lottery Ticket Hypothesis: Finding Sparse, Trainable Neural Networks (Frankle and Carbin, 2019),
          https://arxiv.org/abs/1803.03635
        | Learning both Weights and Connections for Efficient Neural Networks (Han et al., 2015),
          https://arxiv.org/abs/1506.02626

    Arguments:
        model: The model, whose own loss and turns are used.
        sparsity: The sparsity :math:`s`, the share of weights that are zero in the end; at 0 nothing is pruned.
        cuts: The number of prunings; the training has one round more.
        scope: Whether the same share of each layer is removed, or the smallest weights of all layers together; the
            latter may leave nothing of a layer with small initial weights.
        restart: The remaining weights after a cut: rewound to their ``initial`` values, initialized ``anew``, or left
            as they are (``none``).
    """

    null: ClassVar[Mapping[str, Any]] = {"sparsity": 0.0}

    done: Tensor

    def __init__(
        self,
        model: Model[Any],
        sparsity: float = 0.8,
        cuts: int = 1,
        scope: Literal["global", "layer"] = "layer",
        restart: Literal["initial", "anew", "none"] = "initial",
    ) -> None:
        super().__init__(model)
        if not 0 <= sparsity < 1:
            raise UsageError(f"sparsity is the share of weights to remove, from 0 to below 1 (got {sparsity:g})")
        at_least(1, cuts=cuts)
        one_of(("global", "layer"), scope=scope)
        one_of(("initial", "anew", "none"), restart=restart)
        self.sparsity, self.cuts, self.scope, self.restart = sparsity, cuts, scope, restart
        weights = {name: value for name, value in model.named_parameters() if value.ndim >= 2}
        if not weights:
            raise UsageError(f"{model.name()} has no weights that can be pruned")
        self.masks = _Kept({name: torch.ones_like(value, dtype=torch.bool) for name, value in weights.items()})
        self.start = _Kept({name: value.detach().clone() for name, value in model.state_dict().items()})
        self.register_buffer("done", torch.zeros((), dtype=torch.long))

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        model, batch = ToyClassifier.example()
        return cls(model, sparsity=0.5), batch

    def prepare(self, data: Iterable[B]) -> None:
        """Remember the initial weights."""
        super().prepare(data)
        for name, value in self.model.state_dict().items():
            self.start[name].copy_(value)

    def turns(self) -> Sequence[Turn[B]]:
        """The wrapped model's turns in each round, and a cut at the beginning of each round but the first."""
        if self.sparsity == 0:
            return self.model.turns()
        plain = descents(self.model, self.name())
        turns: list[Turn[B]] = []
        for i in range(self.cuts + 1):
            begin, end = i / (self.cuts + 1), (i + 1) / (self.cuts + 1)
            if i > 0:
                turns.append(Absorb(partial(self._cut, i), name=f"cut-{i}", share=(begin, end)))
            for turn in plain:
                first, last = ((1 - share) * begin + share * end for share in turn.share)
                after = partial(self._stay_pruned, turn.after)
                turns.append(replace(turn, name=f"{turn.name}-{i + 1}", share=(first, last), after=after))
        return turns

    def own_metrics(self, batch: B) -> Terms:
        """The share of weights that are pruned."""
        pruned = torch.cat([~mask.flatten() for mask in self.masks.values()])
        return {"sparsity": pruned.float().mean()}

    def prune(self, sparsity: float) -> None:
        """Set the smallest weights to zero, so that this share of all is; those that are pruned stay so."""
        named = dict(self.model.named_parameters())
        groups = [list(self.masks)] if self.scope == "global" else [[name] for name in self.masks]
        for names in groups:
            # Weights that are pruned already are below every magnitude, so that they count first.
            sizes = [named[name].detach().abs().masked_fill(~self.masks[name], -1).flatten() for name in names]
            magnitudes = torch.cat(sizes)
            kept = torch.ones_like(magnitudes, dtype=torch.bool)
            kept[magnitudes.argsort(stable=True)[: round(sparsity * len(magnitudes))]] = False
            for name, part in zip(names, kept.split([len(size) for size in sizes]), strict=True):
                self.masks[name].copy_(part.view_as(self.masks[name]))  # eq. (1)
        self._stay_pruned(None)

    def keep(self, masks: Mapping[str, Tensor]) -> None:
        """Keep the weights where these masks are True, set all others to zero for good, and cut no more."""
        for name, mask in self.masks.items():
            mask.copy_(masks[name])
        self.done.fill_(self.cuts)
        self._stay_pruned(None)

    def _cut(self, number: int, batch: B) -> None:
        """Prune to the sparsity of this cut and restart, once."""
        if int(self.done) >= number:
            return
        self.done.fill_(number)
        self.prune(1 - (1 - self.sparsity) ** (number / self.cuts))
        if self.restart == "initial":
            self.model.load_state_dict({name: self.start[name] for name in self.model.state_dict()})
        elif self.restart == "anew":
            self.model.load_state_dict(built_like(self.model).state_dict())
        self._stay_pruned(None)

    @torch.no_grad()
    def _stay_pruned(self, after: Callable[[], None] | None) -> None:
        """After a step of the optimizer: set the pruned weights to zero again."""
        if after is not None:
            after()
        named = dict(self.model.named_parameters())
        for name, mask in self.masks.items():
            named[name].masked_fill_(~mask, 0)  # eq. (2)


class _Kept(nn.Module):
    """Tensors under their names in a model, as buffers, so that checkpoints hold them."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.names = tuple(tensors)
        for name, tensor in tensors.items():
            self.register_buffer(name.replace(".", "/"), tensor)  # names of buffers hold no dots

    def __getitem__(self, name: str) -> Tensor:
        return self.get_buffer(name.replace(".", "/"))

    def __iter__(self) -> Any:
        return iter(self.names)

    def values(self) -> list[Tensor]:
        return [self[name] for name in self.names]

    def items(self) -> list[tuple[str, Tensor]]:
        return [(name, self[name]) for name in self.names]
