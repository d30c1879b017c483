"""Masked reconstruction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Model, Recipe, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._backbone import FeatureLearning, examples_of


class MaskedReconstruction(FeatureLearning[Batch]):
    r"""Self-supervised learning by hiding parts of each example, which are to be predicted from the rest.

    Also known as: masked image modeling, masked autoencoder, mask and reconstruct.

    Patches of an image, or features of another example, are hidden by a random mask :math:`m` (1 is hidden) and
    replaced by the mean :math:`\mu` of the training data. With :math:`\phi` the layers of the wrapped model below its
    last one,

    .. math:: \tilde x = (1 - m) \odot x + m \odot \mu, \qquad (1)

    .. math:: \hat x = V \phi(\tilde x) + c, \qquad (2)

    .. math:: \frac{\sum_i m_i (x_i - \hat x_i)^2}{\sum_i m_i} \qquad (3)

    is the loss, a mean over the examples.
    Labels are not used. The features :math:`\phi(x)` serve a linear probe or transfer learning; the decoder is thrown
    away.

    References:
        | Masked Autoencoders Are Scalable Vision Learners (He et al., 2022), https://arxiv.org/abs/2111.06377
        | Context Encoders: Feature Learning by Inpainting (Pathak et al., 2016), https://arxiv.org/abs/1604.07379

    Arguments:
        model: The model whose layers below the last, a linear one, are trained.
        features: The number of features of an example.
        weight: The weight of the reconstruction; at 0 there is none.
        supervised: The weight of the wrapped model's own loss, which needs labels; at 0 labels are not used.
        hidden_share: The probability that a patch or a feature is hidden.
        patch: The side of the square patches of an image, in pixels.
    """

    default_model: ClassVar[str] = "cnn"
    recipe = Recipe(lr=2e-3, schedule="cosine", epochs=100)
    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "supervised": 1.0}
    mean: Tensor

    def __init__(
        self,
        model: Model[Any],
        features: int,
        weight: float = 1.0,
        supervised: float = 0.0,
        hidden_share: float = 0.5,
        patch: int = 2,
    ) -> None:
        super().__init__(model, weight, supervised)
        at_least(1, features=features, patch=patch)
        if not 0 < hidden_share < 1:
            raise UsageError(f"hidden_share is a probability, above 0 and below 1 (got {hidden_share:g})")
        self.features, self.hidden_share, self.patch = features, hidden_share, patch
        self.register_buffer("mean", torch.zeros(features, **self.backbone.like))
        if weight > 0:
            self.decoder = nn.Linear(self.backbone.width, features, **self.backbone.like)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        model, batch = ToyClassifier.example()
        return cls(model, features=2), batch

    def prepare(self, data: Iterable[Batch]) -> None:
        super().prepare(data)
        sums, count = torch.zeros_like(self.mean, dtype=torch.float64), 0
        for batch in data:
            x = flat(examples_of(batch), self.features)
            sums, count = sums + x.double().sum(0), count + len(x)
        self.mean.copy_(sums / count)

    def mask(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """A random mask in the shape of the examples, 1 where they are hidden; of each at least one place is."""
        places = list(x.shape)
        if x.ndim == 4:
            places[1:] = [1, *(-(-side // self.patch) for side in x.shape[2:])]
        chances = torch.rand(places, generator=generator, device=x.device, dtype=x.dtype).flatten(1)
        least = chances == chances.amin(1, keepdim=True)  # else nothing were to be predicted
        hidden = ((chances < self.hidden_share) | least).to(x.dtype).view(places)
        if x.ndim == 4:
            tiles = hidden.repeat_interleave(self.patch, 2).repeat_interleave(self.patch, 3)
            hidden = tiles[:, :, : x.shape[2], : x.shape[3]]
        return hidden.expand_as(x)

    def hide(self, x: Tensor, mask: Tensor) -> Tensor:
        """The examples with what the mask hides replaced by the mean of the training data."""
        return (1 - mask) * x + mask * self.mean.view(x.shape[1:])  # eq. (1)

    def perturbed(self, x: Tensor) -> Tensor:
        return self.hide(x, self.mask(x))

    def pretext(self, batch: Batch) -> tuple[str, Tensor]:
        x = examples_of(batch)
        mask = self.mask(x)
        rebuilt = self.decoder(self.backbone(self.hide(x, mask))).view_as(x)  # eq. (2)
        errors = (mask * (x - rebuilt).square()).flatten(1).sum(1) / mask.flatten(1).sum(1)
        return "reconstruction", errors.mean()  # eq. (3)

    @torch.no_grad()
    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Examples, the same with parts hidden, and what the model puts into their place."""
        if self.weight == 0:
            return {"data": x}
        mask = self.mask(x, generator)
        hidden = self.hide(x, mask)
        rebuilt = self.decoder(self.backbone(hidden)).view_as(x)
        return {"data": x, "masked": hidden, "reconstructed": (1 - mask) * x + mask * rebuilt}
