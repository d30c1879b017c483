"""Images of Gaussian spots and their noisy centers, for heteroscedastic regression: larger spots have larger noise."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.images.image_files import LEVELS
from deepcanon.data.split import fixed_random

SIDE = 16
"""The width and height of an image in pixels; its middle is at (0, 0) and its edges at -1 and 1."""
FARTHEST = 0.7
SMALLEST, LARGEST = 0.12, 0.36
"""The least and the largest standard deviation of the light around the center of a spot."""


def noise(size: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation of the noise in the target of a spot of this size; it grows with the size."""
    return 2 * size**2


def draw_spots(center: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float32]:
    """Images (B, 1, SIDE, SIDE) of Gaussian spots around (x, y), y growing downwards, in gray levels from 0 to 1."""
    pixels = (2 * np.arange(SIDE) + 1) / SIDE - 1
    across, down = (np.exp(-(((pixels - at[:, None]) / size[:, None]) ** 2) / 2) for at in center.T)
    gray = (LEVELS - 1) * down[:, :, None] * across[:, None, :]
    return np.asarray(gray.round() / (LEVELS - 1), dtype=np.float32)[:, None]


def load(entry: Entry) -> Dataset[Labeled]:
    """Spots of all sizes anywhere but at the edges, each with its noisy center (x, y) as the target."""
    parts = []
    for seed, count in enumerate(entry.counts):
        random = fixed_random(seed)
        center = random.uniform(-FARTHEST, FARTHEST, (count, 2))
        size = random.uniform(SMALLEST, LARGEST, count)
        target = center + noise(size)[:, None] * random.standard_normal((count, 2))
        parts.append(Labeled(torch.from_numpy(draw_spots(center, size)), torch.from_numpy(target).float()))
    return entry.dataset(*parts)


SPOTS = Entry(
    name="spots",
    kind="images",
    shape=(1, SIDE, SIDE),
    sizes={**image_sizes((1, SIDE, SIDE)), "targets": 2},
    counts=(2000, 400, 400),
    source="drawn here: round spots of light and their centers, with noise that grows with their size",
    load=load,
    preprocessing={"levels": LEVELS},
)
