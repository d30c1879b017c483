"""Bootstrap aggregating (bagging)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Generator, Tensor, nn

from deepcanon.augment.counters import uniforms
from deepcanon.core import How, Labeled, Model, Terms, Turn, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._ensemble import Ensemble
from deepcanon.methods._layers import built_like, classes_of
from deepcanon.methods._method import descents


class Bagging(Ensemble):
    r"""An ensemble whose members are trained on bootstrap samples of the data and averaged to predict.

    Also known as: bootstrap ensemble.

    .. math:: p(y \mid x) = \frac1M \sum_{m=1}^M p_m(y \mid x) \qquad (1)

    With the variance :math:`\sigma^2` of a member's prediction and the correlation :math:`\rho` of two members, the
    variance of the mean is :math:`\rho \sigma^2 + (1 - \rho) \sigma^2 / M`. In the bootstrap sample of member m the
    number of times that example i occurs is a Poisson number of mean 1, the limit of sampling as many examples as
    there are with replacement,

    .. math:: n_{mi} = \min \Bigl\{ n : \sum_{j=0}^n \frac{e^{-1}}{j!} > u_{mi} \Bigr\}, \qquad (2)

    where :math:`u_{mi}`, uniform from 0 to 1, is a hash of a seed, of m and of i, the position of the example in the
    data set. So a sample is the same in every epoch, and equal examples are in it or not independently of each other.
    The first member is the given model; the others are built like it.

    References:
        | Bagging Predictors (Breiman, 1996), https://doi.org/10.1007/BF00058655
        | Online Bagging and Boosting (Oza and Russell, 2001), https://proceedings.mlr.press/r3/oza01a.html

    Arguments:
        model: The classifier or regression.
        members: The number :math:`M` of members.
        bootstrap: Whether members learn from bootstrap samples; else each learns from all the data, and they differ by
            their initial weights, which is a deep ensemble.
    """

    null: ClassVar[Mapping[str, Any]] = {"members": 1, "bootstrap": False}

    seed: Tensor

    def __init__(self, model: Model[Any], members: int = 5, bootstrap: bool = True) -> None:
        super().__init__(model)
        at_least(1, members=members)
        self.bootstrap = bootstrap
        self.others = nn.ModuleList(built_like(model) for _ in range(members - 1))
        self.register_buffer("seed", torch.tensor(0))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model, members=3), batch

    @property
    def members(self) -> list[Model[Any]]:
        """The members of the ensemble, the given model first."""
        return [self.model, *(other for other in self.others if isinstance(other, Model))]

    @property
    def averages(self) -> bool:
        return len(self.others) > 0

    def forward(self, *inputs: Tensor) -> Any:
        """The mean of the members' outputs; for classes, the logarithm of the mean probability."""
        if not self.averages:
            return self.model(*inputs)
        outputs = torch.stack([member(*inputs) for member in self.members])
        if classes_of(self.model) is None:
            return outputs.mean(0)
        return outputs.log_softmax(-1).logsumexp(0) - math.log(len(outputs))  # eq. (1)

    def prepare(self, data: Any) -> None:
        for member in self.members:
            member.prepare(data)
        if self.bootstrap:
            self.seed.random_()

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

    def predictions(self, *inputs: Tensor, how: How = "mean", generator: Generator | None = None) -> Tensor:
        """The prediction of each member, (members, B, ...)."""
        predicted = [
            member.predict(*inputs, how=how, generator=generator)  # type: ignore[operator]
            for member in self.members
        ]
        return torch.stack(predicted)

    def unwrapped(self) -> Model[Any]:
        """The ensemble itself: no single member predicts as all of them do."""
        return self

    def _sampled(self, member: int, loss: Callable[[Labeled], Terms], batch: Labeled) -> Terms:
        """The loss on those examples of the batch that are in the member's bootstrap sample, as often as they are."""
        if not self.bootstrap or not self.training:
            return loss(batch)
        if not isinstance(batch, Labeled):
            raise UsageError(f"a bootstrap sample needs labeled examples; with {batch.noun} set bootstrap to false")
        if batch.x.is_meta:  # where there are no values, there is nothing to choose
            return loss(batch)
        places = torch.arange(len(batch)) if batch.positions is None else batch.positions
        times = occurrences(places, member, int(self.seed)).to(batch.device)
        if not bool(times.any()):  # nothing of this batch is in the sample, so its gradient is zero
            return {name: 0 * value for name, value in loss(batch).items()}
        sampled = batch.select(torch.arange(len(times), device=times.device).repeat_interleave(times))
        share = self.model.weight_of(sampled) / self.model.weight_of(batch)  # so that parts of a batch add up to it
        return {name: share * value for name, value in loss(sampled).items()}


def occurrences(positions: Tensor, member: int, seed: int = 0) -> Tensor:
    """The count of each of these examples in the bootstrap sample of a member, (B,): Poisson numbers of mean 1.

    >>> occurrences(torch.arange(8), 0), occurrences(torch.tensor([3, 5]), 0)
    (tensor([0, 3, 0, 2, 1, 0, 2, 0]), tensor([2, 0]))
    """
    uniform = uniforms(positions, 1, seed=seed, epoch=member)[:, 0]
    cumulative = np.cumsum([math.exp(-1) / math.factorial(count) for count in range(12)])
    return torch.from_numpy(np.searchsorted(cumulative, uniform, side="right"))  # eq. (2)
