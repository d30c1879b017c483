"""Curriculum learning: easy examples first, harder ones as the training goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from deepcanon.core import Labeled, Model, Terms, Turn, UsageError, eval_mode, methods_of
from deepcanon.core.checks import one_of
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._method import Method, descents


class Curriculum(Method[Labeled]):
    r"""A model that begins with the easiest examples of each batch and gets to see all of them in time.

    .. math:: \ell_t = \frac{\sum_i \mathbb 1[d_i \le q_t]\, \ell(x_i, y_i)}{\sum_i \mathbb 1[d_i \le q_t]},
              \qquad c_t = \min\Bigl(1,\; c_0 + (1 - c_0) \frac t{t_1}\Bigr)

    :math:`d_i` is how hard an example is and :math:`q_t` the value that the share :math:`c_t` of a batch does not
    exceed, after the share :math:`t` of the training. Examples that are equally hard are seen together: where all are,
    all are seen from the first step on.

    References:
        | Curriculum Learning (Bengio et al., 2009), https://doi.org/10.1145/1553374.1553380
        | Self-Paced Learning for Latent Variable Models (Kumar et al., 2010),
          https://papers.nips.cc/paper/3923-self-paced-learning-for-latent-variable-models
        | Competence-based Curriculum Learning for Neural Machine Translation (Platanios et al., 2019),
          https://arxiv.org/abs/1903.09848

    Arguments:
        model: The classifier or regression, whose own loss and turns are used.
        difficulty: What makes an example hard: by ``surprise`` that the model as it is answers it badly (minus the
            log-probability of its class, or the squared error); by ``size`` the norm of its input; by ``uniform``
            nothing.
        begin: The share :math:`c_0` of a batch that is seen at first.
        until: The share :math:`t_1` of the training after which all is seen.
    """

    null: ClassVar[Mapping[str, Any]] = {"difficulty": "uniform"}

    def __init__(
        self,
        model: Model[Any],
        difficulty: Literal["surprise", "size", "uniform"] = "surprise",
        begin: float = 0.3,
        until: float = 0.5,
    ) -> None:
        super().__init__(model)
        one_of(("surprise", "size", "uniform"), difficulty=difficulty)
        if difficulty == "surprise" and "predict" not in methods_of(model):
            raise UsageError(f"how badly an example is answered is not known: {model.name()} has no predict")
        for name, share in (("begin", begin), ("until", until)):
            if not 0 < share <= 1:
                raise UsageError(f"{name} is a share, above 0 and at most 1 (got {share:g})")
        self.difficulty, self.begin, self.until = difficulty, begin, until

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model), batch

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [replace(turn, loss=partial(self._on_the_easy, turn.loss)) for turn in descents(self.model, self.name())]

    def loss(self, batch: Labeled) -> Terms:
        return self._on_the_easy(self.model.loss, batch)

    def share(self) -> float:
        """The share of a batch that is seen by now."""
        return min(1.0, self.begin + (1 - self.begin) * self.progress / self.until)

    @torch.no_grad()
    def hardness(self, batch: Labeled) -> Tensor:
        """How hard each example is, (B,)."""
        if self.difficulty == "uniform":
            return torch.zeros(len(batch), device=batch.x.device)
        if self.difficulty == "size":
            norms: Tensor = torch.linalg.vector_norm(batch.x.flatten(1), dim=1)
            return norms
        with eval_mode(self.model):
            mean: Tensor = self.model.predict(*batch.inputs, how="mean")  # type: ignore[operator]
        if batch.y.is_floating_point():
            return (mean - batch.y).square().flatten(1).sum(1)
        return -mean.gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)  # in the order of minus the logarithm

    def _on_the_easy(self, loss: Callable[[Labeled], Terms], batch: Labeled) -> Terms:
        """The loss on the easiest of the batch."""
        count = math.ceil(self.share() * len(batch))
        if not self.training or self.difficulty == "uniform" or count == len(batch):
            return loss(batch)
        if not isinstance(batch, Labeled) or batch.y.ndim > 2:
            raise UsageError(f"a curriculum is one of examples with a label each; there are {batch.noun}")
        hardness = self.hardness(batch)
        easy = hardness <= hardness.kthvalue(count).values
        return loss(batch.select(easy.nonzero().squeeze(1)))
