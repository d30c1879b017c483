"""Pretraining without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import nn

from deepcanon.augment.views import viewed
from deepcanon.core import Descend, Labeled, Model, SemiBatch, Terms, Turn, UsageError, methods_of
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.losses import nt_xent
from deepcanon.methods._backbone import Backbone, examples_of
from deepcanon.methods._method import Method, descents
from deepcanon.methods._semi_supervised import toy_example

PROJECTION, TEMPERATURE = 32, 0.2
"""The size of contrastive embeddings, and their temperature."""


class Pretrained(Method[Labeled]):
    r"""A classifier whose layers are first trained without labels, as an encoder, and then with them.

    Also known as: unsupervised pretraining, self-taught learning.

    With :math:`\phi` the layers below the last one, the first share of the training minimizes the loss of an
    autoencoder with a decoder :math:`g` of one hidden layer,

    .. math:: \lVert x - g(\phi(x)) \rVert^2 / d, \qquad (1)

    or the contrastive loss of SimCLR on two random views of each example,

    .. math:: \frac1{2N} \sum_i -\log \frac{e^{s_{i j(i)} / \tau}}{\sum_{k \ne i} e^{s_{ik} / \tau}}, \qquad (2)

    on all examples, labeled or not. In the rest of it the classifier learns from the labels, all of it or, where
    :math:`\phi` is frozen, its last layer alone.

    References:
        | Greedy Layer-Wise Training of Deep Networks (Bengio et al., 2006),
          https://proceedings.neurips.cc/paper/2006/hash/5da713a690c067105aeb2fae32403405-Abstract.html
        | Why Does Unsupervised Pre-training Help Deep Learning? (Erhan et al., 2010),
          https://jmlr.org/papers/v11/erhan10a.html

    Arguments:
        model: The classifier, whose last layer is linear.
        features: The number of features of an example.
        share: The share of the training that goes without labels; at 0 there is no pretraining.
        task: What is learned without labels: the ``reconstruction`` of an autoencoder, or ``contrastive`` embeddings.
        backbone: Whether the layers below the last are fine-tuned or frozen once they are pretrained.
        strength: The strength of the augmentation of contrastive learning, as that of SimCLR.
    """

    null: ClassVar[Mapping[str, Any]] = {"share": 0.0, "backbone": "fine-tuned"}
    null_name: ClassVar[str] = "from scratch"
    supervised: ClassVar[Mapping[str, Any]] = {"share": 0.0, "backbone": "fine-tuned"}

    def __init__(
        self,
        model: Model[Any],
        features: int,
        share: float = 0.5,
        task: Literal["reconstruction", "contrastive"] = "reconstruction",
        backbone: Literal["frozen", "fine-tuned"] = "fine-tuned",
        strength: float = 0.5,
    ) -> None:
        super().__init__(model)
        at_least(1, features=features)
        if not 0 <= share < 1:
            raise UsageError(f"share is a share of the training, from 0 to below 1 (got {share:g})")
        one_of(("reconstruction", "contrastive"), task=task)
        one_of(("frozen", "fine-tuned"), backbone=backbone)
        if "predict" not in methods_of(model):
            raise UsageError(f"pretrained wraps a model with predict; {model.name()} has no predict")
        self.share, self.task, self.features, self.strength = share, task, features, strength
        self.frozen = backbone == "frozen"
        self.backbone = Backbone(model, self.name())
        width = self.backbone.width
        if share > 0:  # the decoder of the autoencoder, or the projection head
            outputs = features if task == "reconstruction" else PROJECTION
            layers = nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
            self.pretext_head = nn.Sequential(*layers).to(**self.backbone.like)

    @classmethod
    def example(cls) -> tuple[Self, SemiBatch]:
        model, batch = toy_example()
        return cls(model, features=2), batch

    def turns(self) -> Sequence[Turn[Labeled]]:
        """A turn without labels, then the wrapped model's, on what is not frozen."""
        later = descents(self.model, self.name())
        if self.share == 0:
            return later
        head = {id(parameter) for parameter in self.model.get_submodule(self.backbone.head_name).parameters()}
        kept = [
            replace(
                turn,
                share=(self.share, 1.0),
                parameters=tuple(p for p in turn.parameters if not self.frozen or id(p) in head),
            )
            for turn in later
        ]
        below = (*self.backbone.parameters, *self.pretext_head.parameters())
        return [Descend(self.pretext, below, name="pretraining", share=(0.0, self.share)), *kept]

    def pretext(self, batch: Labeled) -> Terms:
        """The loss of the task without labels."""
        x = examples_of(batch)
        if self.task == "reconstruction":
            gap = self.pretext_head(self.backbone(x)) - flat(x, self.features)
            return {"reconstruction": gap.square().mean()}  # eq. (1)
        views = torch.cat([viewed(x, self.strength), viewed(x, self.strength)])
        one, other = self.pretext_head(self.backbone(views)).chunk(2)
        return {"contrastive": nt_xent(one, other, TEMPERATURE)}  # eq. (2)
