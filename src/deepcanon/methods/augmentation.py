"""Data augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Generator, Tensor

from deepcanon.augment.motions import Augment
from deepcanon.core import Labeled, Model, Terms, Turn, UsageError
from deepcanon.core.roles import Shows
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.core.turn import B
from deepcanon.methods._method import Method, descents


class Augmentation(Method[B]):
    r"""Training on randomly transformed images: each is rotated, shifted, scaled, sheared, cropped or flipped anew.

    Also known as: image augmentation.

    .. math:: \min_\theta \operatorname E_m\, \ell\bigl(f_\theta(x \circ m), y\bigr) \qquad (1)

    .. math:: m(p) = s F R_\alpha S_k^{-1} D^{-1} \left(p\,(1 + \lambda\, |p|^2 / \rho^2) - t\right) + o \qquad (2)

    The transformation :math:`m` of pixel coordinates (crop, flip, rotation, shear, scaling, translation, lens
    distortion; see :class:`~deepcanon.augment.motions.Augment`) is drawn for each image independently at each step.
    Labels stay. In eval mode images are not transformed.

    References:
        | Best practices for convolutional neural networks applied to visual document analysis (Simard et al., 2003),
          https://doi.org/10.1109/ICDAR.2003.1227801
        | ImageNet classification with deep convolutional neural networks (Krizhevsky et al., 2012),
          https://doi.org/10.1145/3065386

    Arguments:
        model: The model, whose own loss and turns are used.
        rotate: The largest angle in degrees, either way.
        translate: The largest translation in each direction, as a share of the side.
        stretch: The largest scaling of each side on its own: 0.1 is a factor from 1/1.1 to 1.1.
        shear: The largest shear: the shift to either side per pixel down.
        crop: The largest share of each side that is cut away; what is left fills the image.
        flip: The probability of a horizontal flip. Digits and letters are not to be mirrored, photographs may be.
        lens: The largest lens distortion at the corners, either way, as a share of their distance from the center.
        border: The padding outside of an image: its ``border`` repeated, ``zeros``, or its ``reflection``.
    """

    default_model: ClassVar[str] = "cnn"
    null: ClassVar[Mapping[str, Any]] = {
        "rotate": 0.0, "translate": 0.0, "stretch": 0.0, "shear": 0.0, "crop": 0.0, "flip": 0.0, "lens": 0.0
    }  # fmt: skip

    def __init__(
        self,
        model: Model[Any],
        rotate: float = 10.0,
        translate: float = 0.1,
        stretch: float = 0.1,
        shear: float = 0.1,
        crop: float = 0.0,
        flip: float = 0.0,
        lens: float = 0.0,
        border: Literal["border", "zeros", "reflection"] = "border",
    ) -> None:
        super().__init__(model)
        self.augment = Augment(crop, flip, rotate, shear, stretch, translate, lens, border)

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        images = torch.rand(16, 1, 4, 4, generator=Generator().manual_seed(0))
        return cls(ToyClassifier(features=16, classes=2)), Labeled(images, (images.mean((1, 2, 3)) > 0.5).long())

    def prepare(self, data: Iterable[B]) -> None:
        first = next(iter(data))
        if not self.augment.idle and (first.x.ndim != 4 or not first.x.is_floating_point()):
            raise UsageError(
                f"{self.name()} transforms images, (channels, height, width) of real numbers; an example here is "
                f"{tuple(first.x.shape[1:])} of {str(first.x.dtype).removeprefix('torch.')}"
            )
        super().prepare(data)

    def turns(self) -> Sequence[Turn[B]]:
        return [replace(turn, loss=partial(self.around, turn.loss)) for turn in descents(self.model, self.name())]

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Images, below them three random augmentations of each, and what the wrapped model has to show."""
        augmented = {name: self.augmented(x, generator) for name in ("augmented", "again", "once more")}
        theirs = self.model.gallery(x, generator=generator) if isinstance(self.model, Shows) else {}
        return {"data": x, **augmented, **theirs}

    def augmented(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """The images, each under a random transformation of its own."""
        if self.augment.idle:
            return x
        # A batch does not say which examples of the data it holds: fresh random numbers stand in for their indices.
        # Transformations are few numbers that are computed off the accelerator.
        device = "cpu" if generator is None else generator.device
        fresh = torch.randint(2**62, (len(x),), generator=generator, device=device)
        return self.augment(x, fresh, seed=0, epoch=0)  # eq. (2)

    def around(self, loss: Callable[[B], Terms], batch: B) -> Terms:
        return loss(replace(batch, x=self.augmented(batch.x)) if self.training else batch)  # eq. (1)
