"""Real handwritten digits of 8x8 pixels, which scikit-learn brings along."""

from __future__ import annotations

import numpy as np
import torch

from deepcanon.core import Labelled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.split import cut, stratified_order

LEVELS = 17  # a pixel counts the dark dots of a 4x4 block: 0 to 16


def load(entry: Entry) -> Dataset[Labelled]:
    """The digits, in a stratified split that never changes."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = Labelled(
        x=torch.from_numpy(bunch.images.astype(np.float32) / (LEVELS - 1)).unsqueeze(1),  # (N, 1, 8, 8)
        y=torch.from_numpy(bunch.target.astype(np.int64)),
    )
    order = stratified_order(images.y.numpy(), seed=0)
    train, valid, test = (images.select(rows) for rows in cut(order, entry.counts))
    return entry.dataset(train, valid, test)


DIGITS = Entry(
    name="digits",
    kind="images",
    shape=(1, 8, 8),
    sizes=image_sizes((1, 8, 8), classes=10),
    counts=(1257, 180, 360),
    source="scikit-learn, load_digits (UCI, optical recognition of handwritten digits)",
    load=load,
    labels=tuple("0123456789"),
    preprocessing={"levels": LEVELS},
)
