"""Geometric data augmentation of a whole batch of images: one sampling grid, one interpolation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from deepcanon.augment.counters import uniforms
from deepcanon.core import DataError, UsageError
from deepcanon.core.checks import one_of

Border = Literal["border", "zeros", "reflection"]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Motion:
    r"""A geometric transformation of each image of a batch: few numbers, kept in NumPy, which is faster with so few.

    The image is cropped, mirrored, rotated, sheared, stretched, translated and at last distorted by the lens. So the
    new pixel at :math:`p`, measured from the center, to the right and down, is the old one at

    .. math:: q = s F R_\alpha S_k^{-1} D^{-1} \left(p\,(1 + \lambda\, |p|^2 / \rho^2) - t\right) + o

    where :math:`\rho` is half of the diagonal.

    Arguments:
        crop: The share :math:`s` of each side that is left and fills the image, (B,).
        corner: The position of the crop, from -1 (left, top) to 1 (right, bottom), (B, 2); it determines :math:`o`.
        mirror: -1 where the image is flipped horizontally (:math:`F`), else 1, (B,).
        rotate: The angle :math:`\alpha` in degrees, counterclockwise, (B,).
        shear: How far the image moves to the right per pixel down, :math:`k`, (B,).
        stretch: The factors :math:`D` of width and height, (B, 2).
        translate: The translation :math:`t` to the right and down in pixels, (B, 2).
        lens: The radial distortion :math:`\lambda`, (B,): barrel above 0, pincushion below.
    """

    crop: Numbers
    corner: Numbers
    mirror: Numbers
    rotate: Numbers
    shear: Numbers
    stretch: Numbers
    translate: Numbers
    lens: Numbers

    @classmethod
    def none(cls, count: int) -> Motion:
        """The identity, which leaves all images unchanged."""
        zero, one = np.zeros(count), np.ones(count)
        both = np.zeros((count, 2))
        return cls(one, both, one, zero, zero, both + 1, both, zero)

    @cached_property
    def matrix(self) -> Numbers:
        """The linear part of the map from the pixels of the new image to those of the old one, (B, 2, 2)."""
        angle = self.rotate * (math.pi / 180)
        cos, sin = np.cos(angle), np.sin(angle)
        wide, high = (self.crop / stretch for stretch in self.stretch.T)
        matrix = np.empty((len(cos), 2, 2))
        # y points down, so that a counterclockwise rotation has the minus below; F may negate the upper row.
        matrix[:, 0, 0] = self.mirror * cos * wide
        matrix[:, 0, 1] = self.mirror * (-sin - self.shear * cos) * high
        matrix[:, 1, 0] = sin * wide
        matrix[:, 1, 1] = (cos - self.shear * sin) * high
        return matrix

    def offset(self, width: int, height: int) -> Numbers:
        """The position in the old image, measured from its center, of the center of the new one, (B, 2)."""
        cropped = self.corner * (1 - self.crop[:, None]) * (width / 2, height / 2)
        moved: Numbers = cropped - (self.matrix * self.translate[:, None]).sum(-1)
        return moved

    def apply(self, images: Tensor, border: Border = "border") -> Tensor:
        """The transformed images, by bilinear interpolation; ``border`` is the padding mode outside of them."""
        one_of(("border", "zeros", "reflection"), border=border)
        _only_images(images)
        height, width = images.shape[2:]
        half = np.array([width / 2, height / 2])
        motion = np.empty((len(images), 2, 5))
        # Positions in units of half a side, as in grid_sample: -1 and 1 are the outer edges of the border pixels.
        motion[:, :, :2] = self.matrix * (half / half[:, None])
        motion[:, :, 2:4] = motion[:, :, :2] * self.lens[:, None, None]
        motion[:, :, 4] = self.offset(width, height) / half
        rows, powers = _basis(height, width, images.dtype, images.device)
        cubics = (torch.from_numpy(motion).to(images).flatten(0, 1) @ rows).view(-1, 4)  # one per row of pixels
        grid = (cubics @ powers).view(-1, 2, height, width).permute(0, 2, 3, 1)
        return F.grid_sample(images, grid, mode="bilinear", padding_mode=border, align_corners=False)


@dataclass(frozen=True)
class Augment:
    """Random geometric data augmentation of images, a function of (seed, epoch, index) of each example alone.

    So an example is augmented alike in every batch, on one machine or on many, and differently in every epoch. With all
    arguments at 0 the images are unchanged.

    References:
        | Best practices for convolutional neural networks applied to visual document analysis (Simard et al., 2003),
          https://doi.org/10.1109/ICDAR.2003.1227801
        | ImageNet classification with deep convolutional neural networks (Krizhevsky et al., 2012),
          https://doi.org/10.1145/3065386

    Arguments:
        crop: The largest share of each side that is cut away; what is left fills the image.
        flip: The probability of a horizontal flip.
        rotate: The largest angle in degrees, either way.
        shear: The largest shift to either side per pixel down.
        stretch: How much longer or shorter each side becomes at most: 0.25 is from 1/1.25 to 1.25.
        translate: The largest translation in each direction, as a share of the side.
        lens: The largest radial distortion at the corners, either way, as a share of their distance from the center.
        border: The padding outside of an image: its "border" repeated, "zeros", or its "reflection".

    >>> images = torch.rand(2, 1, 8, 8)
    >>> moved = Augment(rotate=15, translate=0.1)(images, torch.tensor([0, 1]), seed=0, epoch=3)
    >>> moved.shape
    torch.Size([2, 1, 8, 8])
    """

    crop: float = 0.0
    flip: float = 0.0
    rotate: float = 0.0
    shear: float = 0.0
    stretch: float = 0.0
    translate: float = 0.0
    lens: float = 0.0
    border: Border = "border"

    def __post_init__(self) -> None:
        one_of(("border", "zeros", "reflection"), border=self.border)
        # Beyond a third the lens would show the same point twice: p (1 - l p^2) has its maximum at p = 1.
        for name, most in (("crop", 1), ("flip", 1), ("lens", 1 / 3), ("translate", 1)):
            if not 0 <= getattr(self, name) <= most or (name == "crop" and self.crop == 1):
                bound = {"crop": "below 1", "lens": "a third"}.get(name, "1")
                raise UsageError(f"{name} goes from 0 to {bound} (got {getattr(self, name)})")
        for name in ("rotate", "shear", "stretch"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} is the largest change, 0 or more (got {getattr(self, name)})")

    @property
    def idle(self) -> bool:
        """Whether the images always stay unchanged."""
        return not any((self.crop, self.flip, self.rotate, self.shear, self.stretch, self.translate, self.lens))

    def __call__(self, images: Tensor, index: Tensor, *, seed: int, epoch: int) -> Tensor:
        """The augmented images, (B, channels, height, width), which have the ``index`` (B,) in the data."""
        _only_images(images)
        if index.shape != images.shape[:1]:
            raise DataError(f"each of {len(images)} images needs its index, got the shape {tuple(index.shape)}")
        if self.idle:
            return images
        return self.motion(index, images.shape[3], images.shape[2], seed=seed, epoch=epoch).apply(images, self.border)

    def motion(self, index: Tensor, width: int, height: int, *, seed: int, epoch: int) -> Motion:
        """The transformation of the images of this size at ``index``."""
        low, high = _ends(self, width, height)
        drawn = low + (high - low) * uniforms(index, 11, seed=seed, epoch=epoch)  # (B, 11)
        return Motion(
            crop=drawn[:, 0],
            corner=drawn[:, 1:3],
            mirror=np.where(drawn[:, 3] < 0, -1.0, 1.0),
            rotate=drawn[:, 4],
            shear=drawn[:, 5],
            stretch=np.exp(drawn[:, 6:8]),
            translate=drawn[:, 8:10],
            lens=drawn[:, 10],
        )


@lru_cache(maxsize=8)
def _ends(augment: Augment, width: int, height: int) -> tuple[Numbers, Numbers]:
    """The lower and upper bounds of the eleven numbers of a motion, both (11,).

    The number that is below 0 for a mirrored image is so with probability ``flip``; those of the stretch are
    logarithms.
    """
    either = (
        augment.rotate,
        augment.shear,
        *(math.log1p(augment.stretch),) * 2,
        augment.translate * width,
        augment.translate * height,
        augment.lens,
    )
    low = (1.0, -1.0, -1.0, -augment.flip, *(-end for end in either))
    high = (1.0 - augment.crop, 1.0, 1.0, 1.0 - augment.flip, *either)
    return np.array(low), np.array(high)


def _only_images(images: Tensor) -> None:
    if images.ndim != 4 or not images.is_floating_point():
        raise DataError(
            "only images of real numbers, (B, channels, height, width), can be transformed; got "
            f"{images.dtype} of shape {tuple(images.shape)}"
        )


@lru_cache(maxsize=8)
def _basis(height: int, width: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    r"""The basis :math:`x, y, x r^2, y r^2` and 1 of the positions at each pixel, as cubics in :math:`x` along its row.

    Here x and y go from -1 to 1 and r from 0 to 1 at the corners. Returned are the coefficients of all five in each
    row, (5, height * 4), and the powers of x, (4, width): two small matrix products then give all positions, at half of
    the cost of one product with all five at each pixel.

    Cached, as all batches of a training use the same one; so it is made outside of any inference mode, whose tensors
    cannot be used elsewhere.
    """
    with torch.inference_mode(mode=False):
        y, x = ((torch.arange(count, dtype=dtype, device=device) + 0.5) * 2 / count - 1 for count in (height, width))
        wide, high = width**2 / (width**2 + height**2), height**2 / (width**2 + height**2)
        nil, one = torch.zeros_like(y), torch.ones_like(y)
        rows = [
            [nil, one, nil, nil],  # x
            [y, nil, nil, nil],  # y
            [nil, high * y**2, nil, wide * one],  # x r^2
            [high * y**3, nil, wide * y, nil],  # y r^2
            [one, nil, nil, nil],  # 1
        ]
        coefficients = torch.stack([torch.stack(row, dim=-1).flatten() for row in rows])
        return coefficients, torch.stack([x**power for power in range(4)])
