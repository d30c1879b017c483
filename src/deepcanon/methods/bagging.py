"""Bagging: several networks, each trained on a bootstrap sample of the data, answer by their mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Generator, Tensor, nn

from deepcanon.augment.counters import GOLDEN, mixed, unit
from deepcanon.core import How, Labeled, Model, Terms, Turn, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._averaged import Averaged
from deepcanon.methods._layers import built_like, classes_of
from deepcanon.methods._method import descents


class Bagging(Averaged):
    r"""Members of one kind with weights and bootstrap samples of their own, whose mean is the answer.

    .. math:: p(y \mid x) = \frac1M \sum_{m=1}^M p_m(y \mid x), \qquad
              \operatorname{Var} = \rho \sigma^2 + \frac{1 - \rho}M \sigma^2

    :math:`\sigma^2` is the variance of a member's answer and :math:`\rho` the correlation of two members. In the
    bootstrap sample of a member an example occurs :math:`n \sim \operatorname{Poisson}(1)` times, the limit of drawing
    as many examples as there are with replacement. :math:`n` follows from the example and the number of the member, so
    that it is the same in every epoch, and equal examples occur equally often. The first member is the given model; the
    others are built like it.

    References:
        | Bagging Predictors (Breiman, 1996), https://doi.org/10.1007/BF00058655
        | Online Bagging and Boosting (Oza and Russell, 2001), https://proceedings.mlr.press/r3/oza01a.html

    Arguments:
        model: The classifier or regression.
        members: The number :math:`M` of members.
        bootstrap: Whether members learn from bootstrap samples; else each learns from all the data, and they differ by
            the weights that they begin with.
    """

    null: ClassVar[Mapping[str, Any]] = {"members": 1, "bootstrap": False}

    def __init__(self, model: Model[Any], members: int = 5, bootstrap: bool = True) -> None:
        super().__init__(model)
        at_least(1, members=members)
        self.bootstrap = bootstrap
        self.others = nn.ModuleList(built_like(model) for _ in range(members - 1))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model, members=3), batch

    @property
    def members(self) -> list[Model[Any]]:
        """The networks, the given one first."""
        return [self.model, *(other for other in self.others if isinstance(other, Model))]

    @property
    def averages(self) -> bool:
        return len(self.others) > 0

    def forward(self, *inputs: Tensor) -> Any:
        """The mean of the members' outputs; of logits, the logarithm of the mean probability."""
        if not self.averages:
            return self.model(*inputs)
        outputs = torch.stack([member(*inputs) for member in self.members])
        if classes_of(self.model) is None:
            return outputs.mean(0)
        return outputs.log_softmax(-1).logsumexp(0) - math.log(len(outputs))

    def prepare(self, data: Any) -> None:
        for member in self.members:
            member.prepare(data)

    def turns(self) -> Sequence[Turn[Labeled]]:
        """The turns of each member, on its own bootstrap sample."""
        return [
            replace(
                turn, loss=partial(self._sampled, i, turn.loss), name=turn.name.replace("main", "member") + f"-{i + 1}"
            )
            for i, member in enumerate(self.members)
            for turn in descents(member, self.name())
        ]

    def training_loss(self, batch: Labeled) -> Terms:
        """The mean over the members of their losses on their bootstrap samples."""
        losses = [self._sampled(i, member.loss, batch) for i, member in enumerate(self.members)]
        return {name: torch.stack([terms[name] for terms in losses]).mean() for name in losses[0]}

    def answers(self, *inputs: Tensor, how: How = "mean", generator: Generator | None = None) -> Tensor:
        """What each member answers, (members, B, ...)."""
        said = [
            member.predict(*inputs, how=how, generator=generator)  # type: ignore[operator]
            for member in self.members
        ]
        return torch.stack(said)

    def unwrapped(self) -> Model[Any]:
        """The members together: no single model answers as they do."""
        return self

    def _sampled(self, member: int, loss: Callable[[Labeled], Terms], batch: Labeled) -> Terms:
        """The loss on what of the batch is in the member's bootstrap sample, as often as it is in there."""
        if not self.bootstrap or not self.training:
            return loss(batch)
        if not isinstance(batch, Labeled):
            raise UsageError(f"a bootstrap sample is one of labeled examples; of {batch.noun} set bootstrap to false")
        if batch.x.is_meta:  # a sample follows from values, which there are none of
            return loss(batch)
        times = occurrences(batch.x, member)
        if not bool(times.any()):  # nothing of this batch is in the sample, so it teaches nothing
            return {name: 0 * value for name, value in loss(batch).items()}
        return loss(batch.select(torch.arange(len(times), device=times.device).repeat_interleave(times)))


def occurrences(x: Tensor, member: int) -> Tensor:
    """How often each example is in the bootstrap sample of a member, (B,): Poisson numbers of mean 1.

    >>> x = torch.arange(8.0).unsqueeze(1)
    >>> occurrences(x, 0), occurrences(x[3:5], 0)
    (tensor([0, 0, 0, 3, 1, 1, 1, 1]), tensor([3, 1]))
    """
    bits = x.detach().flatten(1).double().cpu().numpy().view(np.uint64)  # (B, features)
    places = np.arange(bits.shape[1], dtype=np.uint64) * np.uint64(GOLDEN)  # so that the order of the features counts
    uniform = unit(mixed(mixed(bits + places).sum(1) ^ np.uint64(member + 1)))
    cumulative = np.cumsum([math.exp(-1) / math.factorial(count) for count in range(12)])
    return torch.from_numpy(np.searchsorted(cumulative, uniform, side="right")).to(x.device)
