"""The digits are scikit-learn's, every one in exactly one part, with the same share of each class."""

from collections import Counter

import numpy as np
from sklearn.datasets import load_digits

from deepcanon.core import Labeled
from deepcanon.data import Dataset, load_data


def parts(data: Dataset[Labeled]) -> list[Labeled]:
    return [data.split(name) for name in ("train", "valid", "test")]


def test_the_parts_together_are_scikit_learns_digits() -> None:
    bunch = load_digits()
    expected = Counter((image.tobytes(), int(label)) for image, label in zip(bunch.images, bunch.target, strict=True))
    found: Counter[tuple[bytes, int]] = Counter()
    for part in parts(load_data("digits")):
        images = (part.x.double() * 16).squeeze(1).numpy()
        found.update((image.tobytes(), int(label)) for image, label in zip(images, part.y, strict=True))
    assert found == expected


def test_the_split_is_stratified() -> None:
    shares = np.bincount(load_digits().target) / 1797
    for part in parts(load_data("digits")):
        assert np.abs(np.bincount(part.y) - shares * len(part)).max() <= 1


def test_the_split_never_changes() -> None:
    """Published results hold for these very training digits."""
    assert load_data("digits").fingerprint() == "32b1240ee21aada839952c3b71f81f8a6268543e80fd1e102e70fb9955a96dfe"
