"""Convolutions at both ends of a network that takes and gives images as flat rows."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.nn.activations import Activation
from deepcanon.nn.transposed import StridedStages

ImageShape = tuple[int | None, int | None, int | None]
"""Channels, height and width of an image, as far as they are known."""


class ImageRows(nn.Sequential):
    """Layers on images, applied to flat rows of any leading shape: (..., inputs) to (..., outputs).

    >>> import torch
    >>> ImageRows((1, 4, 6), nn.Conv2d(1, 2, 3, stride=2, padding=1))(torch.zeros(5, 3, 24)).shape
    torch.Size([5, 3, 12])
    """

    def __init__(self, shape: tuple[int, int, int], *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.shape = shape

    def forward(self, input: Tensor) -> Tensor:
        images = input.reshape(-1, *self.shape)
        for layer in self:
            images = layer(images)
        outputs = images.flatten(1)
        return outputs.reshape(*input.shape[:-1], outputs.shape[-1])


class ImageEnds(NamedTuple):
    """The ends of a network: ``down`` comes before an encoder, ``up`` after a decoder, with ``units`` in between.

    Without convolutions both are empty, and the units are the features themselves.
    """

    down: nn.Sequential
    up: nn.Sequential
    units: int


def known_shape(features: int, image: ImageShape) -> tuple[int, int, int]:
    """The shape of images of so many features, which convolutions need to know."""
    channels, height, width = image
    if channels is None or height is None or width is None:
        raise UsageError("convolutions need images: give channels, height and width, or leave them out")
    if channels * height * width != features or min(channels, height, width) < 1:
        raise UsageError(
            f"images of {channels} x {height} x {width} (channels x height x width) do not have {features} features: "
            "give both alike"
        )
    return channels, height, width


def image_ends(features: int, image: ImageShape, convolutions: tuple[int, ...], activation: Activation) -> ImageEnds:
    """The ends of networks whose convolutions have so many channels, each halving the sides of an image.

    >>> image_ends(64, (1, 8, 8), (16, 32), "relu").units
    128
    >>> image_ends(64, (None, None, None), (16, 32), "relu")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: convolutions need images: give channels, height and width, or leave them out
    """
    if not convolutions:
        if None not in image:
            known_shape(features, image)
        return ImageEnds(nn.Sequential(), nn.Sequential(), features)
    shape = known_shape(features, image)
    for outputs in convolutions:
        at_least(1, convolutions=outputs)
    stages = StridedStages(shape, convolutions, activation)
    down, up = ImageRows(stages.shape, *stages.down), ImageRows(stages.inner, *stages.up)
    return ImageEnds(down, up, prod(stages.inner))
