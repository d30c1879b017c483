"""Binarized MNIST, in the one fixed binarization on which log-likelihoods are published."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Batch, DataError
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import BROKEN_ARCHIVE, VARIABLE, Remote, RemoteFile, data_folders
from deepcanon.data.entry import Entry, image_sizes

PIXELS = 28 * 28
SHA256 = {
    "train": "727146c35424b019f3e350e1e69faa05644a0abaf787e3f4e1a9632220a13906",
    "valid": "a256ac44ae26be720fad8616a05ed6ecfd1619930d9a208379bb2a4405df5b6d",
    "test": "9fcd8da6f0fdf09b2ba30fe63a0bb784042a0de82563172530229b983e294ff2",
}
"""The hashes of the bits of each split, row by row and packed, whatever file they come in."""


def load(entry: Entry) -> Dataset[Batch]:
    """The published splits: 50,000 training, 10,000 validation and 10,000 test images."""
    (file,) = entry.remote.files
    path = entry.remote.find(file)
    if path is None:
        raise DataError(
            f"{entry.name} cannot be downloaded; put {file.name} into {data_folders()[0] / entry.name} (another "
            f"folder: set {VARIABLE}). It is a NumPy archive of train_packed, valid_packed and test_packed, the rows "
            "of the three published .amat files as numpy.packbits gives them"
        )
    train, valid, test = (_part(path, part, digest) for part, digest in SHA256.items())
    return entry.dataset(train, valid, test)


def _part(path: Path, part: str, digest: str) -> Batch:
    try:
        with path.open("rb") as stream, np.load(stream) as archive:
            packed: NDArray[np.uint8] = archive[f"{part}_packed"]
    except BROKEN_ARCHIVE as error:
        raise DataError(f"{path} is not a NumPy archive with {part}_packed: {error}") from error
    if hashlib.sha256(packed.tobytes()).hexdigest() != digest:
        raise DataError(f"{path}: {part}_packed does not hold the published bits; replace the file")
    bits = np.unpackbits(packed.reshape(-1, PIXELS // 8), axis=1)
    return Batch(torch.from_numpy(bits.astype(np.float32)).reshape(-1, 1, 28, 28))


BINARIZED_MNIST = Entry(
    name="binarized-mnist",
    kind="images",
    shape=(1, 28, 28),
    sizes=image_sizes((1, 28, 28)),
    counts=(50000, 10000, 10000),
    source="MNIST, each pixel drawn once by its gray value (Salakhutdinov and Murray, 2008)",
    load=load,
    preprocessing={"levels": 2},
    remote=Remote(
        folder="binarized-mnist",
        files=(
            RemoteFile(
                "binarized_mnist_fixed.npz", 2503470, "626ab774df086c3fcbc5c28ec426125d9aa3116dc12242d411e82286f12c4c45"
            ),
        ),
    ),
)
