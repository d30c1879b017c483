"""SimCLR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.augment.views import viewed
from deepcanon.core import Batch, Model, Recipe, Terms, UsageError
from deepcanon.core.checks import at_least, positive
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.losses import nt_xent
from deepcanon.methods._backbone import FeatureLearning, examples_of


class SimCLR(FeatureLearning[Batch]):
    r"""Self-supervised contrastive learning: two random views of an example are to be recognized among all others.

    Also known as: contrastive learning, NT-Xent.

    With :math:`\phi` the layers of the wrapped model below its last one and :math:`g` a projection head, the embeddings
    of two random views :math:`\mathcal A(x)` of each of N examples are

    .. math:: z_i = g(\phi(\mathcal A(x_i))), \qquad g(h) = W_2 \max(0, W_1 h + b_1) + b_2, \qquad (1)

    and the loss over all 2N views, with cosines :math:`s_{ik}` and :math:`j(i)` the other view of i,

    .. math:: \frac1{2N} \sum_i -\log \frac{e^{s_{i j(i)} / \tau}}{\sum_{k \ne i} e^{s_{ik} / \tau}}. \qquad (2)

    Labels are not used. The features :math:`\phi(x)` serve a linear probe or transfer learning, and the projection head
    is thrown away. Larger batches have more negatives, so that batches of parts are not the same.

    References:
        | A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., 2020),
          https://arxiv.org/abs/2002.05709

    Arguments:
        model: The model whose layers below the last, a linear one, are trained.
        weight: The weight of the contrastive loss; at 0 there is none.
        supervised: The weight of the wrapped model's own loss, which needs labels; at 0 labels are not used.
        temperature: The temperature :math:`\tau`: the smaller, the more the nearest other examples count.
        projection: The number of values of an embedding :math:`z`.
        strength: The strength of the augmentation: of images, how far they are rotated (times 30 degrees), sheared,
            stretched and shifted, and a fifth of the noise, in standard deviations; of others, all of the noise.
        flip: Whether images may be flipped horizontally.
    """

    default_model: ClassVar[str] = "cnn"
    recipe = Recipe(lr=2e-3, schedule="cosine", batch_size=256, epochs=100)
    relates_examples: ClassVar[bool] = True
    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "supervised": 1.0}

    def __init__(
        self,
        model: Model[Any],
        weight: float = 1.0,
        supervised: float = 0.0,
        temperature: float = 0.2,
        projection: int = 32,
        strength: float = 0.5,
        flip: bool = False,
    ) -> None:
        super().__init__(model, weight, supervised)
        positive(temperature=temperature)
        at_least(1, projection=projection)
        if strength < 0:
            raise UsageError(f"strength must be 0 or more (got {strength:g})")
        self.temperature, self.strength, self.flip = temperature, strength, flip
        width = self.backbone.width
        if weight > 0:
            first, last = nn.Linear(width, width), nn.Linear(width, projection)
            self.projector = nn.Sequential(first, nn.ReLU(), last).to(**self.backbone.like)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        model, batch = ToyClassifier.example()
        return cls(model), batch

    def perturbed(self, x: Tensor) -> Tensor:
        return self.view(x)

    def view(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """A random view of each example."""
        return viewed(x, self.strength, flip=self.flip, generator=generator)

    def embeddings(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The embeddings of two random views of each example, (B, projection) twice."""
        views = torch.cat([self.view(x), self.view(x)])
        one, other = self.projector(self.backbone(views)).chunk(2)  # eq. (1)
        return one, other

    def pretext(self, batch: Batch) -> tuple[str, Tensor]:
        return "contrastive", nt_xent(*self.embeddings(examples_of(batch)), self.temperature)  # eq. (2)

    def own_metrics(self, batch: Batch) -> Terms:
        """``matched``, the share of views of which the nearest among all others is the other view of the example."""
        if self.weight == 0:
            return {}
        views = nn.functional.normalize(torch.cat(self.embeddings(examples_of(batch))), dim=-1)
        nearest = (views @ views.T).fill_diagonal_(-torch.inf).argmax(1)
        partners = torch.arange(len(views), device=views.device).roll(len(views) // 2)
        return {"matched": (nearest == partners).to(views.dtype).mean()}

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Examples with two random views of each."""
        return {"data": x, "a view": self.view(x, generator), "another view": self.view(x, generator)}
