"""CIFAR-10 and CIFAR-100: 60,000 color images of 32x32 pixels, from the binary archives of their author.

The better known archives of the same images are Python pickles, which could run any code; they are never read here.
"""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import DataError, Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import VARIABLE, Remote, RemoteFile, data_folders
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.split import cut, stratified_order

LEVELS = 256
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
FILES = {
    "cifar10": (
        tuple(f"cifar-10-batches-bin/data_batch_{batch}.bin" for batch in range(1, 6)),
        ("cifar-10-batches-bin/test_batch.bin",),
    ),
    "cifar100": (("cifar-100-binary/train.bin",), ("cifar-100-binary/test.bin",)),
}
"""The files of an archive that hold the training and the test split."""
LABEL_BYTES = {"cifar10": 1, "cifar100": 2}
"""The number of label bytes before the pixels; the last is the class, and CIFAR-100 has a superclass before it."""

Part = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Images, (N, 3, 32, 32), and their classes."""


def load(entry: Entry) -> Dataset[Labeled]:
    """The published test and training splits, the latter less a fixed stratified validation split."""
    (path,) = entry.remote.fetch()
    known, test = (_records(path, names, entry) for names in FILES[entry.name])
    return _dataset(entry, known, test)


def load_small(entry: Entry) -> Dataset[Labeled]:
    """The first 400 training and the first 100 test images of each class, from a NumPy archive."""
    (file,) = entry.remote.files
    if entry.remote.find(file) is None:
        raise DataError(
            f"{entry.name} cannot be downloaded; put {file.name} into {data_folders()[0] / (entry.remote.folder or '')}"
            f" (another folder: set {VARIABLE}), or take cifar10, which has all of its images"
        )
    (path,) = entry.remote.fetch()
    with np.load(path) as archive:
        parts = [(archive[f"x_{part}"].transpose(0, 3, 1, 2), archive[f"y_{part}"]) for part in ("train", "test")]
    return _dataset(entry, *parts)


def _records(path: Path, names: tuple[str, ...], entry: Entry) -> Part:
    """The images and classes in these files of the archive; nothing is unpacked to the disk."""
    before = LABEL_BYTES[entry.name]
    try:
        with tarfile.open(path, "r:gz") as archive:
            content = b"".join(stream.read() for name in names if (stream := archive.extractfile(name)) is not None)
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not an archive with {' and '.join(names)}: {error}") from error
    if not content or len(content) % (before + PIXELS):
        raise DataError(
            f"{path}: images take {before + PIXELS} bytes each in {' and '.join(names)}, which have {len(content)}"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, before + PIXELS)
    return records[:, before:].reshape(-1, *SHAPE), records[:, before - 1]


def _dataset(entry: Entry, known: Part, test: Part) -> Dataset[Labeled]:
    counts = (len(known[1]), len(test[1]))
    highest = int(max(known[1].max(), test[1].max()))
    if counts != (sum(entry.counts[:2]), entry.counts[2]) or highest >= len(entry.labels):
        raise DataError(
            f"{entry.name} must have {sum(entry.counts[:2])} and {entry.counts[2]} images of classes below "
            f"{len(entry.labels)}; got {counts[0]} and {counts[1]} of classes up to {highest}"
        )
    parts = cut(stratified_order(known[1].astype(np.int64), seed=0), entry.counts[:2])
    train, valid = (_labeled(known[0][rows], known[1][rows]) for rows in (part.numpy() for part in parts))
    return entry.dataset(train, valid, _labeled(*test))


def _labeled(images: NDArray[np.uint8], classes: NDArray[np.uint8]) -> Labeled:
    x = torch.from_numpy(np.ascontiguousarray(images)).float().div_(LEVELS - 1)  # in place: CIFAR is large
    return Labeled(x, torch.from_numpy(classes.astype(np.int64)))


TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
HUNDRED = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest",
    "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard",
    "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine", "possum",
    "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper",
    "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone",
    "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf",
    "woman", "worm",
)  # fmt: skip
SOURCE = "small photographs (Krizhevsky, 2009), https://www.cs.toronto.edu/~kriz/cifar.html"

CIFAR10 = Entry(
    name="cifar10",
    kind="images",
    shape=SHAPE,
    sizes=image_sizes(SHAPE, classes=10),
    counts=(45000, 5000, 10000),
    source=SOURCE,
    load=load,
    labels=TEN,
    preprocessing={"levels": LEVELS},
    remote=Remote(
        folder="cifar10",
        mirrors=(
            "https://www.cs.toronto.edu/~kriz/",
            "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
            "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/",
        ),
        files=(
            RemoteFile(
                "cifar-10-binary.tar.gz", 170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
            ),
        ),
    ),
)
CIFAR100 = Entry(
    name="cifar100",
    kind="images",
    shape=SHAPE,
    sizes=image_sizes(SHAPE, classes=100),
    counts=(45000, 5000, 10000),
    source=SOURCE,
    load=load,
    labels=HUNDRED,
    preprocessing={"levels": LEVELS},
    remote=Remote(
        folder="cifar100",
        mirrors=(
            "https://www.cs.toronto.edu/~kriz/",
            "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/",
        ),
        files=(
            RemoteFile(
                "cifar-100-binary.tar.gz", 168513733, "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
            ),
        ),
    ),
)
CIFAR10_SMALL = Entry(
    name="cifar10-small",
    kind="images",
    shape=SHAPE,
    sizes=image_sizes(SHAPE, classes=10),
    counts=(3600, 400, 1000),
    source="the first 400 and 100 images per class of CIFAR-10's training and test split (Krizhevsky, 2009)",
    load=load_small,
    labels=TEN,
    preprocessing={"levels": LEVELS},
    remote=Remote(
        folder="cifar10",
        files=(
            RemoteFile(
                "cifar10_small.npz", 14172508, "ad1758587287fbac1ece0fb9bd04a7f44ccbc3ff9a8923563404559f6c680fcf"
            ),
        ),
    ),
)
