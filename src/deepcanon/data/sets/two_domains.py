"""Points of two domains with a known mapping between them: a spiral, and the same spiral turned, scaled and shifted."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import ImagePairs, TwoDomains
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

TURN = math.pi / 3
SCALE = 1.5
SHIFT = (4.0, -1.0)
NOISE = 0.04
FEWER = 0.75
"""The size of domain y as a share of that of domain x."""


def counterpart(x: Tensor) -> Tensor:
    """The mapping from domain x to domain y: points (B, 2) turned by 60 degrees, scaled and shifted."""
    cos, sin = math.cos(TURN), math.sin(TURN)
    return SCALE * x @ x.new_tensor([[cos, sin], [-sin, cos]]) + x.new_tensor(SHIFT)


def spiral(count: int, seed: int) -> Tensor:
    """Points along a spiral, denser and narrower at its inner end, so that no other simple map takes it to itself."""
    random = fixed_random(seed)
    place = random.uniform(size=count) ** 1.5
    angle, radius = 1.4 * np.pi * place, 0.4 + 1.2 * place
    noise = NOISE * (1 + place[:, None]) * random.standard_normal((count, 2))
    return torch.from_numpy(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1) + noise).float()


def load(entry: Entry) -> Dataset[TwoDomains]:
    """Training examples are unpaired draws of each domain; held-out ones are pairs, to measure a learned mapping by."""
    train, valid, test = entry.counts
    unpaired = TwoDomains(spiral(train, seed=0), counterpart(spiral(round(FEWER * train), seed=1)))
    pairs = [spiral(count, seed) for count, seed in ((valid, 2), (test, 3))]
    return entry.dataset(unpaired, *(ImagePairs(x, counterpart(x)) for x in pairs))


TWO_DOMAINS = Entry(
    name="two-domains",
    kind="domains",
    shape=(2,),
    sizes={"features": 2},
    counts=(4000, 1000, 1000),
    source="drawn here: points on a spiral, and others on the same spiral turned by 60 degrees, scaled and shifted",
    load=load,
)
