"""Weak supervision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from deepcanon.core import Model, Terms, Turn, UsageError, Voted, methods_of
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.precision import full
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._label_model import LabelModel
from deepcanon.methods._layers import classes_of
from deepcanon.methods._method import Method, descents


class WeakSupervision(Method[Voted]):
    r"""A classifier trained without labels, from the votes of labeling functions of unknown quality.

    Also known as: data programming, learning from crowds.

    Sources vote :math:`v_j` for a class or abstain. A label model, fitted to the votes alone by EM, says how often each
    is right, given the class, and which pairs copy each other:

    .. math:: p(y, v) = \pi_y \prod_{j \text{ alone}} p_j(v_j \mid y)
              \prod_{(i, j) \text{ a pair}} p_{ij}(v_i, v_j \mid y). \qquad (1)

    The classifier learns from the probabilities of the labels that follow,

    .. math:: -\frac1B \sum_x \sum_y p(y \mid v_x) \log p_\theta(y \mid x), \qquad (2)

    and so also of examples that resemble each other and on which sources disagree. With majority labels it is the
    wrapped model, trained on the class that most sources vote for.

    References:
        | Data Programming: Creating Large Training Sets, Quickly (Ratner et al., 2016),
          https://arxiv.org/abs/1605.07723
        | Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm (Dawid and Skene, 1979),
          https://doi.org/10.2307/2346806

    Arguments:
        model: The classifier, whose forward gives logits.
        sources: The number of sources.
        labels: Whether labels are those of the label model or of the majority.
        pairs: Whether the label model looks for sources that depend on each other; without, all count as independent.
    """

    null: ClassVar[Mapping[str, Any]] = {"labels": "majority"}
    null_name: ClassVar[str] = "trained on majority votes"

    def __init__(
        self,
        model: Model[Any],
        sources: int,
        labels: Literal["label model", "majority"] = "label model",
        pairs: bool = True,
    ) -> None:
        super().__init__(model)
        at_least(3, sources=sources)  # of fewer, votes do not show how good each is
        one_of(("label model", "majority"), labels=labels)
        classes = classes_of(model)
        if "predict" not in methods_of(model) or classes is None:
            raise UsageError(f"weak_supervision wraps a classifier; {model.name()} does not predict classes")
        self.labels, self.pairs = labels, pairs
        self.label_model = LabelModel(classes, sources).to(next(model.parameters()))

    @classmethod
    def example(cls) -> tuple[Self, Voted]:
        model, batch = ToyClassifier.example()
        random = torch.Generator().manual_seed(0)
        wrong = torch.rand(len(batch), 3, generator=random) < 0.2
        votes = (batch.y.unsqueeze(1) + wrong) % 2
        return cls(model, sources=3), Voted.of(batch.x, votes)

    def prepare(self, data: Iterable[Voted]) -> None:
        super().prepare(data)
        if self.labels != "majority":
            self.label_model.fit(torch.cat([batch.votes for batch in data]), pairs=self.pairs)

    def turns(self) -> Sequence[Turn[Voted]]:
        return [replace(turn, loss=partial(self.around, turn.loss)) for turn in descents(self.model, self.name())]

    def around(self, loss: Callable[[Voted], Terms], batch: Voted) -> Terms:
        """In training the cross-entropy with the probabilities of the labels, else the model's own loss."""
        if self.labels == "majority" or not (self.training and isinstance(batch, Voted)):
            return loss(batch)
        logits: Tensor = full(self.model(*batch.inputs))
        return {"nll": cross_entropy(logits, self.label(batch.votes))}  # eq. (2)

    @torch.no_grad()
    def label(self, votes: Tensor) -> Tensor:
        """The probabilities of the labels given the votes, (B, classes)."""
        shares: Tensor = self.label_model(votes)  # eq. (1)
        return shares
