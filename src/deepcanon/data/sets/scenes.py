"""Scenes of one to three handwritten digits with captions that say which they are and how they stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from deepcanon.core import Captioned, Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.sets import digits
from deepcanon.data.split import fixed_random
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens
from deepcanon.data.text.text_pairs import captioned
from deepcanon.data.text.words import UNKNOWN, Words

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIDE, CELL, DIGIT, MOST = 28, 9, 8, 3
"""The pixels of a side of a scene, of one of its 3x3 cells and of a digit; so many digits stand in a line, at most."""
RELATIONS = ("left of", "above")
"""How a digit stands to the next one: in a row, or in a column."""

CAPTIONS = WithSpecialTokens(
    Words((UNKNOWN, "a", "an", *NAMES, "left", "of", "above")), SpecialTokens.first("padding", "begin", "end")
)
LONGEST = 2 + 2 * MOST + 2 * (MOST - 1)
"""The number of tokens of the longest caption, with begin and end tokens."""


def caption(classes: Sequence[int], relation: str) -> str:
    """What a scene of these digits says, from left to right or from top to bottom.

    >>> caption([3, 7], "left of"), caption([2, 8], "above"), caption([0], "above")
    ('a three left of a seven', 'a two above an eight', 'a zero')
    """
    return f" {relation} ".join(f"{'an' if digit == 8 else 'a'} {NAMES[digit]}" for digit in classes)


def scenes(source: Labeled, count: int, seed: int) -> Captioned:
    """Random scenes of these digits, with their captions.

    A scene has 3x3 cells. Its digits stand in cells of one row or of one column, each moved by up to a pixel, and so
    is the whole scene.
    """
    random = fixed_random(seed)
    numbers, relations, lines = (random.randint(most, size=count) for most in (MOST, len(RELATIONS), MOST))
    chosen = random.randint(len(source), size=(count, MOST))
    cells = np.argsort(random.uniform(size=(count, MOST)))  # along the line
    moved = random.randint(2, size=(count, MOST, 2)) + random.randint(2, size=(count, 1, 2))
    images, x, texts = source.x[:, 0].numpy(), np.zeros((count, 1, SIDE, SIDE), dtype=np.float32), []
    for scene in range(count):
        number, relation = 1 + numbers[scene], RELATIONS[relations[scene]]
        for row, along, (down, right) in zip(chosen[scene], np.sort(cells[scene, :number]), moved[scene], strict=False):
            line, column = (lines[scene], along) if relation == "left of" else (along, lines[scene])
            top, left = CELL * line + down, CELL * column + right
            x[scene, 0, top : top + DIGIT, left : left + DIGIT] = images[row]
        texts.append(caption(source.y[chosen[scene, :number]].tolist(), relation))
    return captioned(torch.from_numpy(x), texts, CAPTIONS, LONGEST)


def load(entry: Entry) -> Dataset[Captioned]:
    """The splits, each of other handwritten digits: those of the same split of ``digits``."""
    parts = digits.DIGITS.load(digits.DIGITS)
    train, valid, test = (
        scenes(parts.split(name), count, seed)
        for seed, (name, count) in enumerate(zip(("train", "valid", "test"), entry.counts, strict=True))
    )
    return entry.dataset(train, valid, test)


SCENES = Entry(
    name="scenes",
    kind="captions",
    shape=(1, SIDE, SIDE),
    sizes={
        **image_sizes((1, SIDE, SIDE)),
        "target_vocab": len(CAPTIONS.vocabulary),
        "begin_token": CAPTIONS.special.sizes["begin_token"],
        "end_token": CAPTIONS.special.sizes["end_token"],
    },
    counts=(20000, 1000, 1000),
    source="drawn here: one to three of the handwritten digits of scikit-learn in a row or a column, and a caption",
    load=load,
    target_vocabulary=CAPTIONS.vocabulary,
    preprocessing={"levels": digits.LEVELS, "target_tokenizer": CAPTIONS.to_json()},
)
