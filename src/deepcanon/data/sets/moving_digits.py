"""Videos of handwritten digits that move over a small canvas and bounce off its edges."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import Labeled, Videos
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.sets import digits
from deepcanon.data.split import fixed_random

SIDE, FRAMES, FEWEST = 12, 8, 4
"""The side of the canvas, and the numbers of frames of the longest and of the shortest videos."""

VELOCITIES = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if (down, right) != (0, 0))


def moving(images: Tensor, seed: int) -> Videos:
    """One video of each image (B, 1, height, width): it starts anywhere and moves by a pixel a frame, to any side.

    At an edge it turns back. Videos have from 4 to 8 frames, and are black after their end.
    """
    random, count = fixed_random(seed), len(images)
    room = SIDE - images.shape[-1]
    start = random.randint(room + 1, size=(count, 2))
    velocity = np.array(VELOCITIES)[random.randint(len(VELOCITIES), size=count)]
    lengths = torch.from_numpy(random.randint(FEWEST, FRAMES + 1, size=count))
    x = images.new_zeros(count, FRAMES, 1, SIDE, SIDE)
    for frame in range(FRAMES):
        corner = bounced(start + frame * velocity, room)
        for row in (lengths > frame).nonzero().squeeze(1).tolist():
            top, left = corner[row]
            x[row, frame, :, top : top + images.shape[-2], left : left + images.shape[-1]] = images[row]
    return Videos(x, lengths)


def bounced(place: NDArray[np.int64], room: int) -> NDArray[np.int64]:
    """Where something is that went straight on to this place, if it turns back at 0 and at ``room``.

    >>> bounced(np.arange(-2, 8), 3).tolist()
    [2, 1, 0, 1, 2, 3, 2, 1, 0, 1]
    """
    folded: NDArray[np.int64] = room - np.abs(place % (2 * room) - room)
    return folded


def load(entry: Entry) -> Dataset[Videos]:
    """Digits of each split of the digits move in the videos of that split, so that no held-out digit was seen."""
    known = digits.load(digits.DIGITS)
    parts: list[Labeled] = [known.split(name) for name in ("train", "valid", "test")]
    return entry.dataset(
        *(moving(part.x[:count], seed) for seed, (part, count) in enumerate(zip(parts, entry.counts, strict=True)))
    )


MOVING_DIGITS = Entry(
    name="moving-digits",
    kind="videos",
    shape=(FRAMES, 1, SIDE, SIDE),
    sizes={**image_sizes((1, SIDE, SIDE)), "length": FRAMES},
    counts=(800, 120, 240),
    source="drawn here: scikit-learn's digits, moving over a canvas and bouncing off its edges",
    load=load,
    preprocessing={"levels": digits.LEVELS},
)
