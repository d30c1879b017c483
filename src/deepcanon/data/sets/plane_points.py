"""Points in the plane: two moons, two rings, and eight Gaussians on a circle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import Batch, Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

MOON_NOISE = 0.1
RING_NOISE = 0.05
INNER_RING = 0.5  # its radius; the outer ring's is 1
RADIUS = 2.0
STD = 0.1


def centers() -> Tensor:
    """The means of the eight Gaussians, (8, 2)."""
    angle = torch.arange(8, dtype=torch.float64) * (2 * math.pi / 8)
    return RADIUS * torch.stack([angle.cos(), angle.sin()], dim=1)


def load_moons(entry: Entry) -> Dataset[Labeled]:
    """Two interleaved half circles."""
    from sklearn.datasets import make_moons

    return _labeled(entry, lambda count, seed: make_moons(count, noise=MOON_NOISE, random_state=seed))


def load_rings(entry: Entry) -> Dataset[Labeled]:
    """Two circles around one center; class 0 is the outer one."""
    from sklearn.datasets import make_circles

    return _labeled(
        entry, lambda count, seed: make_circles(count, noise=RING_NOISE, factor=INNER_RING, random_state=seed)
    )


def load_eight_gaussians(entry: Entry) -> Dataset[Batch]:
    """Independent draws from a mixture of eight equally probable Gaussians."""
    parts = []
    for seed, count in enumerate(entry.counts):
        random = fixed_random(seed)
        mode = random.randint(8, size=count)
        noise = random.standard_normal((count, 2))
        parts.append(Batch((centers()[mode] + STD * torch.from_numpy(noise)).float()))
    return entry.dataset(*parts)


def _labeled(entry: Entry, make: Callable[[int, int], tuple[Any, Any]]) -> Dataset[Labeled]:
    """The splits, each with a seed of its own: 0 for training, 1 for validation, 2 for test."""
    parts = []
    for seed, count in enumerate(entry.counts):
        x, y = make(count, seed)
        parts.append(Labeled(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64))))
    return entry.dataset(*parts)


MOONS = Entry(
    name="moons",
    kind="points",
    shape=(2,),
    sizes={"features": 2, "classes": 2},
    counts=(4000, 1000, 1000),
    source=f"scikit-learn, make_moons with noise {MOON_NOISE}",
    load=load_moons,
    labels=("upper", "lower"),
)
RINGS = Entry(
    name="rings",
    kind="points",
    shape=(2,),
    sizes={"features": 2, "classes": 2},
    counts=(4000, 1000, 1000),
    source=f"scikit-learn, make_circles with noise {RING_NOISE} and radii 1 and {INNER_RING}",
    load=load_rings,
    labels=("outer", "inner"),
)
EIGHT_GAUSSIANS = Entry(
    name="eight-gaussians",
    kind="points",
    shape=(2,),
    sizes={"features": 2},
    counts=(8000, 1000, 1000),
    source=f"drawn here: eight Gaussians of std {STD} on a circle of radius {RADIUS}",
    load=load_eight_gaussians,
)
