"""The handwritten digits of scikit-learn, real images of 8x8 pixels."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from deepcanon.core import DataError, Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.split import cut, stratified_order

LEVELS = 17  # a pixel counts the dark dots of a 4x4 block: 0 to 16


def load(entry: Entry) -> Dataset[Labeled]:
    """The digits, in a fixed stratified split."""
    table = np.loadtxt(_file(), delimiter=",", dtype=np.int64)  # 64 pixels, then the digit
    images = Labeled(
        x=torch.from_numpy(table[:, :-1].astype(np.float32) / (LEVELS - 1)).reshape(-1, 1, 8, 8),
        y=torch.from_numpy(table[:, -1].copy()),
    )
    order = stratified_order(images.y.numpy(), seed=0)
    train, valid, test = (images.select(rows) for rows in cut(order, entry.counts))
    return entry.dataset(train, valid, test)


def _file() -> Path:
    """The data file inside scikit-learn, found without importing it, which takes longer than training on it."""
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("digits are read from scikit-learn, which is not installed: pip install scikit-learn")
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"


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
