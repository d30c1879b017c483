"""Curriculum learning."""

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
    r"""Training that starts with the easiest examples and ends with all of them.

    Also known as: self-paced learning, competence-based curriculum.

    .. math:: \ell_t = \frac{\sum_i \mathbb 1[d_i \le q_t]\, \ell(x_i, y_i)}{\sum_i \mathbb 1[d_i \le q_t]} \qquad (1)

    .. math:: c_t = \min\Bigl(1,\; c_0 + (1 - c_0) \frac t{t_1}\Bigr) \qquad (2)

    :math:`d_i` is the difficulty of an example and :math:`q_t` the quantile of a batch at the share :math:`c_t`, the
    competence of the model after the share :math:`t` of the training. Equally difficult examples are used together: if
    all are, all are used from the first step on. With ``scores`` of one's own the quantile is that of all the training
    data, so that a batch may have many easy examples, or none.

    References:
        | Curriculum Learning (Bengio et al., 2009), https://doi.org/10.1145/1553374.1553380
        | Self-Paced Learning for Latent Variable Models (Kumar et al., 2010),
          https://papers.nips.cc/paper/3923-self-paced-learning-for-latent-variable-models
        | Competence-based Curriculum Learning for Neural Machine Translation (Platanios et al., 2019),
          https://arxiv.org/abs/1903.09848

    Arguments:
        model: The classifier or regression, whose own loss and turns are used.
        difficulty: The difficulty of an example: its ``loss`` under the present model (negative log-likelihood of its
            class, or squared error), the ``norm`` of its input, the same for all, ``uniform``, or ``given`` by scores.
        begin: The share :math:`c_0` of a batch that is used at first.
        until: The share :math:`t_1` of the training after which all examples are used.
        scores: The difficulty of each training example, in the order of the data, for the difficulty "given".
    """

    null: ClassVar[Mapping[str, Any]] = {"difficulty": "uniform"}

    def __init__(
        self,
        model: Model[Any],
        difficulty: Literal["loss", "norm", "uniform", "given"] = "loss",
        begin: float = 0.3,
        until: float = 0.5,
        scores: tuple[float, ...] = (),
    ) -> None:
        super().__init__(model)
        one_of(("loss", "norm", "uniform", "given"), difficulty=difficulty)
        if bool(scores) != (difficulty == "given"):
            raise UsageError(
                f"scores belong to the difficulty 'given' (got {len(scores)} scores and difficulty={difficulty!r})"
            )
        if difficulty == "loss" and "predict" not in methods_of(model):
            raise UsageError(f"the loss of single examples is not known: {model.name()} has no predict")
        for name, share in (("begin", begin), ("until", until)):
            if not 0 < share <= 1:
                raise UsageError(f"{name} is a share, above 0 and at most 1 (got {share:g})")
        self.difficulty, self.begin, self.until = difficulty, begin, until
        self._scores = torch.tensor(scores, dtype=torch.float64)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model), batch

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [replace(turn, loss=partial(self.around, turn.loss)) for turn in descents(self.model, self.name())]

    def share(self) -> float:
        """The share of a batch that is used by now."""
        return min(1.0, self.begin + (1 - self.begin) * self.progress / self.until)  # eq. (2)

    @torch.no_grad()
    def hardness(self, batch: Labeled) -> Tensor:
        """The difficulty of each example, (B,)."""
        if self.difficulty == "uniform":
            return torch.zeros(len(batch), device=batch.x.device)
        if self.difficulty == "given":
            return self._given(batch)
        if self.difficulty == "norm":
            norms: Tensor = torch.linalg.vector_norm(batch.x.flatten(1), dim=1)
            return norms
        with eval_mode(self.model):
            mean: Tensor = self.model.predict(*batch.inputs, how="mean")  # type: ignore[operator]
        if batch.y.is_floating_point():
            return (mean - batch.y).square().flatten(1).sum(1)
        return -mean.gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)  # ordered as the negative log-likelihood

    def around(self, loss: Callable[[Labeled], Terms], batch: Labeled) -> Terms:
        """The loss on the easiest examples of the batch."""
        count = math.ceil(self.share() * len(batch))
        within = self.difficulty != "given"  # the order is one within the batch; that of scores is one over the data
        if not self.training or self.difficulty == "uniform" or (within and count == len(batch)):
            return loss(batch)
        if not isinstance(batch, Labeled) or batch.y.ndim > 2:
            raise UsageError(f"a curriculum orders examples with one label each; there are {batch.noun}")
        hardness = self.hardness(batch)
        all_scores = hardness if within else self._scores.to(hardness)
        easy = hardness <= all_scores.kthvalue(math.ceil(self.share() * len(all_scores))).values
        if bool(easy.all()):
            return loss(batch)
        if not bool(easy.any()):  # nothing is learned from this batch yet
            return {name: 0 * value for name, value in loss(batch).items()}
        return loss(batch.select(easy.nonzero().squeeze(1)))  # eq. (1)

    def _given(self, batch: Labeled) -> Tensor:
        """The scores of the examples of a batch."""
        places = torch.arange(len(batch)) if batch.positions is None else batch.positions.cpu()
        if len(places) and int(places.max()) >= len(self._scores):
            raise UsageError(
                f"each training example needs a score; there are {len(self._scores)} scores for at least "
                f"{int(places.max()) + 1} examples"
            )
        return self._scores[places].to(batch.x.device)
