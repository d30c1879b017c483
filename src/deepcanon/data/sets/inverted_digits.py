"""Handwritten digits and others in inverted colors: two domains of images with a known mapping between them."""

from __future__ import annotations

from torch import Tensor

from deepcanon.core import ImagePairs, TwoDomains
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.sets.digits import DIGITS


def counterpart(x: Tensor) -> Tensor:
    """The mapping from domain x to domain y and back: the inverted image."""
    return 1 - x


def load(entry: Entry) -> Dataset[TwoDomains]:
    """Of the training digits one half is domain x, the other one, inverted, domain y; held-out digits are pairs."""
    digits = DIGITS.load(DIGITS)
    first = entry.counts[0]
    train = TwoDomains(digits.train.x[:first], counterpart(digits.train.x[first:]))
    valid, test = (ImagePairs(digits.split(part).x, counterpart(digits.split(part).x)) for part in ("valid", "test"))
    return entry.dataset(train, valid, test)


INVERTED_DIGITS = Entry(
    name="inverted-digits",
    kind="domains",
    shape=(1, 8, 8),
    sizes=image_sizes((1, 8, 8)),
    counts=(629, 180, 360),
    source="scikit-learn's digits, one half as they are, the other half in inverted colors",
    load=load,
)
