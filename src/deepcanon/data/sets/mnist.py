"""MNIST and Fashion-MNIST: 70,000 gray images of 28x28 pixels in 10 classes, as their authors publish them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import DataError, Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.images.idx import read_gz
from deepcanon.data.split import cut, stratified_order

LEVELS = 256


def load(entry: Entry) -> Dataset[Labeled]:
    """The published test and training splits, the latter less a fixed stratified validation split."""
    train_images, train_labels, test_images, test_labels = (read_gz(path) for path in entry.remote.fetch())
    known = _labeled(train_images, train_labels, entry)
    order = stratified_order(known.y.numpy(), seed=0)
    train, valid = (known.select(rows) for rows in cut(order, entry.counts[:2]))
    return entry.dataset(train, valid, _labeled(test_images, test_labels, entry))


def _labeled(images: NDArray[np.uint8], labels: NDArray[np.uint8], entry: Entry) -> Labeled:
    _, height, width = entry.shape
    if images.shape != (len(labels), height, width) or labels.ndim != 1 or labels.max(initial=0) >= len(entry.labels):
        raise DataError(
            f"{entry.name} must have images of {height}x{width} pixels and as many labels below {len(entry.labels)}; "
            f"got images {images.shape} and labels {labels.shape} up to {labels.max(initial=0)}"
        )
    x = torch.from_numpy(images.astype(np.float32) / (LEVELS - 1)).unsqueeze(1)  # (N, 1, 28, 28)
    return Labeled(x, torch.from_numpy(labels.astype(np.int64)))


def _remote(folder: str, mirrors: tuple[str, ...], files: tuple[tuple[int, str], ...]) -> Remote:
    names = (f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))
    return Remote(folder, mirrors, tuple(RemoteFile(name, *file) for name, file in zip(names, files, strict=True)))


MNIST = Entry(
    name="mnist",
    kind="images",
    shape=(1, 28, 28),
    sizes=image_sizes((1, 28, 28), classes=10),
    counts=(55000, 5000, 10000),
    source="handwritten digits (LeCun, Cortes and Burges, 1998)",
    load=load,
    labels=tuple("0123456789"),
    preprocessing={"levels": LEVELS},
    remote=_remote(
        folder="mnist",
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://sagemaker-sample-files.s3.amazonaws.com/datasets/image/MNIST/",
        ),
        files=(
            (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ),
)
FASHION_MNIST = Entry(
    name="fashion-mnist",
    kind="images",
    shape=(1, 28, 28),
    sizes=image_sizes((1, 28, 28), classes=10),
    counts=(55000, 5000, 10000),
    source="articles of clothing (Xiao, Rasul and Vollgraf, 2017), https://arxiv.org/abs/1708.07747",
    load=load,
    labels=("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
    preprocessing={"levels": LEVELS},
    remote=_remote(
        folder="fashion-mnist",
        mirrors=(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        files=(
            (26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    ),
)
