"""Siamese network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from deepcanon.core import Labeled, Model, Recipe, Terms
from deepcanon.core.checks import one_of
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._backbone import FeatureLearning


class Siamese(FeatureLearning[Labeled]):
    r"""Two twins with the same weights that say whether two examples are of one class, also of a class never seen.

    Also known as: one-shot learning, verification network.

    With :math:`\phi` the layers of the wrapped model below its last one, the probability that two examples are of the
    same class is, with learned positive weights :math:`w`,

    .. math:: p(x_1, x_2) = \sigma\bigl(b - \textstyle\sum_j w_j\, |\phi_j(x_1) - \phi_j(x_2)|\bigr), \qquad (1)

    and the loss over all pairs of a batch, those of one class counting as much as the others, is

    .. math:: -\frac12 \operatorname{mean}_{\text{same}} \log p - \frac12 \operatorname{mean}_{\text{different}}
              \log(1 - p). \qquad (2)

    That is verification, one pair at a time. Matching asks what one-shot classification asks: with :math:`d_{ij}` the
    weighted distance in (1), each example is to find one of its class among all others of the batch,

    .. math:: -\operatorname{mean}_i \log \frac{\sum_{j \ne i,\, y_j = y_i} e^{-d_{ij}}}
              {\sum_{j \ne i} e^{-d_{ij}}}, \qquad (3)

    a mean over those that have a partner there. The nearest of the wrong ones count most, whereas in (2) the many that
    are far apart already hold the mean down; :math:`b` has no part in it.

    A new class needs one example: ``one_shot`` gives to each query the class of the example that it is most probably
    the same as. Larger batches have more pairs of one class, so that batches of parts are not the same.

    References:
        | Siamese Neural Networks for One-shot Image Recognition (Koch et al., 2015),
          https://www.cs.cmu.edu/~rsalakhu/papers/oneshot1.pdf
        | Signature Verification using a "Siamese" Time Delay Neural Network (Bromley et al., 1993),
          https://proceedings.neurips.cc/paper/1993/hash/288cc0ff022877bd3df94bc9360b9c5d-Abstract.html
        | Matching Networks for One Shot Learning (Vinyals et al., 2016), https://arxiv.org/abs/1606.04080
        | Neighbourhood Components Analysis (Goldberger et al., 2004; eq. 3),
          https://papers.nips.cc/paper/2566-neighbourhood-components-analysis

    Arguments:
        model: The model whose layers below the last, a linear one, are trained.
        weight: The weight of the loss of pairs; at 0 there is none.
        supervised: The weight of the wrapped model's own loss of the classes.
        objective: The loss: of ``matching``, eq. (3), or of ``verification``, eq. (2).
    """

    default_model: ClassVar[str] = "cnn"
    recipe = Recipe(lr=1e-3, schedule="cosine", batch_size=256, epochs=60)
    relates_examples: ClassVar[bool] = True
    compared = "one-shot"
    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "supervised": 1.0}

    def __init__(
        self,
        model: Model[Any],
        weight: float = 1.0,
        supervised: float = 0.0,
        objective: Literal["matching", "verification"] = "matching",
    ) -> None:
        super().__init__(model, weight, supervised)
        one_of(("matching", "verification"), objective=objective)
        self.matching = objective == "matching"
        if weight > 0:
            like, width = self.backbone.like, self.backbone.width
            self.log_weights = nn.Parameter(torch.full((width,), -0.5 * math.log(width), **like))
        if weight > 0 and not self.matching:
            self.bias = nn.Parameter(torch.ones((), **like))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model), batch

    def distances(self, one: Tensor, other: Tensor) -> Tensor:
        """The weighted distances of all pairs of two sets of features, (N, M)."""
        scale = self.log_weights.exp()
        return torch.cdist(scale * one, scale * other, p=1)

    def pretext(self, batch: Labeled) -> tuple[str, Tensor]:
        features = self.backbone(*batch.inputs)
        itself = torch.eye(len(batch), dtype=torch.bool, device=features.device)
        same = (batch.y.unsqueeze(1) == batch.y) & ~itself
        distances = self.distances(features, features)
        if self.matching:
            return "matching", _unmatched(-distances, same, itself)
        logits = self.bias - distances  # eq. (1)
        nats = torch.where(same, softplus(-logits), softplus(logits))  # -log p, or -log(1 - p)
        means = [(nats * pairs).sum() / pairs.sum().clamp_min(1) for pairs in (same, ~same & ~itself)]
        return "pairs", 0.5 * (means[0] + means[1])  # eq. (2)

    @torch.no_grad()
    def one_shot(self, queries: Tensor, examples: Tensor) -> Tensor:
        """Of each query the number of the example, one of each new class, that it is most probably the same as."""
        return self.distances(self.backbone(queries), self.backbone(examples)).argmin(1)

    def own_metrics(self, batch: Labeled) -> Terms:
        """``nearest``, the share of examples whose most probable partner among the others is of their class."""
        if self.weight == 0 or len(batch) < 2:
            return {}
        features = self.backbone(*batch.inputs)
        nearest = self.distances(features, features).fill_diagonal_(torch.inf).argmin(1)
        return {"nearest": (batch.y[nearest] == batch.y).to(features.dtype).mean()}


def _unmatched(similar: Tensor, same: Tensor, itself: Tensor) -> Tensor:
    """The negative log-probability that an example of its class is drawn, a mean over those that have a partner."""
    never = torch.finfo(similar.dtype).min / 2  # not infinite: of a row without a partner there is a gradient, times 0
    anyone = similar.masked_fill(itself, never).logsumexp(1)
    partner = similar.masked_fill(~same, never).logsumexp(1)
    matched = same.any(1)
    return torch.where(matched, anyone - partner, 0.0).sum() / matched.sum().clamp_min(1)  # eq. (3)
