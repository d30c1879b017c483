"""The multi-scale flow of images, as Glow has it."""

from __future__ import annotations

from torch import nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.nn.transforms import (
    ActNorm,
    AffineCoupling,
    Chain,
    Flatten,
    InvertibleConv1x1,
    Split,
    Squeeze,
    Transform,
)


def multi_scale(shape: tuple[int, int, int], scales: int, depth: int, hidden: int) -> Chain:
    """The flow of images (channels, height, width) to vectors, with ``depth`` steps at each of its scales.

    A step is ActNorm, an invertible 1x1 convolution and an affine coupling, whose network has two hidden layers of
    ``hidden`` channels.
    """
    channels, height, width = shape
    at_least(1, channels=channels, height=height, width=width, scales=scales, depth=depth, hidden=hidden)
    if height % 2**scales or width % 2**scales:
        raise UsageError(
            f"a flow of {scales} scales halves height and width so many times: both must be divisible by {2**scales} "
            f"(got {height}x{width}); take fewer scales"
        )
    return _scale(shape, scales, depth, hidden)


def _scale(shape: tuple[int, int, int], scales: int, depth: int, hidden: int) -> Chain:
    """The flow of images of this shape from one scale on, to vectors."""
    shape = (4 * shape[0], shape[1] // 2, shape[2] // 2)
    channels = shape[0]
    steps: list[Transform] = [Squeeze()]
    for _ in range(depth):
        steps += [ActNorm(channels), InvertibleConv1x1(channels), AffineCoupling(_network(channels, hidden))]
    if scales == 1:
        return Chain([*steps, ActNorm(channels), Flatten(shape)])
    rest = _scale((channels // 2, *shape[1:]), scales - 1, depth, hidden)
    return Chain([*steps, AffineCoupling(_network(channels, hidden)), Split(shape, rest)])


def _network(channels: int, hidden: int) -> nn.Sequential:
    """The network of a coupling; its last layer is zero at first, and the coupling the identity."""
    last = nn.Conv2d(hidden, channels, 3, padding=1)
    nn.init.zeros_(last.weight)
    first = nn.Conv2d(channels // 2, hidden, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(inplace=True), nn.Conv2d(hidden, hidden, 1), nn.ReLU(inplace=True), last)
