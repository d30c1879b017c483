"""A folder of images with one sub-folder per class, split already, as ImageNet is, or not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import Batch, DataError, Labelled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes
from deepcanon.data.hints import listed
from deepcanon.data.split import cut, stratified_order, three_counts

SUFFIXES = (".png", ".jpg", ".jpeg")
CHANNELS = {"L": 1, "RGB": 3}
"""The modes that are read: 8-bit grey and 8-bit colour."""
LEVELS = 256
PARTS = {"valid": ("val", "valid"), "test": ("test",)}
"""What the sub-folders beside ``train`` are called in data that are split already."""


def load(path: Path, preprocessing: Mapping[str, Any] | None = None) -> Dataset[Labelled]:
    """The images of a folder, split by a fixed seed and stratified by class.

    Where its sub-folders are ``train`` and ``val``, and perhaps ``test``, each with one sub-folder per class, as those
    of ImageNet are, these are the parts. With the ``preprocessing`` of an earlier load, classes keep their codes and
    images must have the same shape.
    """
    parts = _parts_in(path)
    batch, classes = _labelled(parts.get("train", path), preprocessing)
    shape = tuple(batch.x.shape[1:])
    fitted = {"classes": list(classes), "shape": list(shape), "levels": LEVELS}
    test: Labelled | None
    if parts:
        train, valid = batch, _labelled(parts["valid"], fitted)[0]
        test = _labelled(parts["test"], fitted)[0] if "test" in parts else None
    else:
        counts = three_counts(len(batch), str(path))
        train, valid, test = (batch.select(rows) for rows in cut(stratified_order(batch.y.numpy(), seed=0), counts))
    return Dataset(
        name=str(path),
        kind="images",
        train=train,
        valid=valid,
        test=test,
        sizes=image_sizes(shape, classes=len(classes)),
        shape=shape,
        labels=classes,
        source=str(path.resolve()),
        preprocessing=fitted,
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labelled: bool = True) -> Batch:
    """All images of a folder for a model that was trained on another one; without sub-folders, without labels.

    Unless images are to be ``labelled``, the names of sub-folders mean nothing.
    """
    files = _images_in(path)
    if not files and not labelled:
        files = [image for folder in _folders_in(path) for image in _images_in(folder)]
    if not files:
        return _labelled(path, preprocessing)[0]
    x = _read_all(files)
    _check_shape(path, x, preprocessing)
    return Batch(x)


def read_image(file: Path) -> Batch:
    """One image as a batch of one, (1, channels, height, width) in [0, 1]."""
    return Batch(_read_all([file]))


def _labelled(path: Path, preprocessing: Mapping[str, Any] | None) -> tuple[Labelled, tuple[str, ...]]:
    folders = _folders_in(path)
    if not folders:
        raise DataError(f"{path} has no sub-folders; put the images of each class into one of its name")
    classes = tuple(folder.name for folder in folders)
    if preprocessing is not None:
        if "classes" not in preprocessing:
            raise DataError(f"this preprocessing is not that of a folder of images: it has {listed(preprocessing)}")
        classes = tuple(preprocessing["classes"])
    files: list[Path] = []
    codes: list[int] = []
    for folder in folders:
        if folder.name not in classes:
            raise DataError(
                f"{folder} is a class that does not occur in the training data, which know {listed(classes)}"
            )
        images = _images_in(folder)
        if not images:
            raise DataError(f"{folder} has no images ({', '.join(SUFFIXES)})")
        files += images
        codes += [classes.index(folder.name)] * len(images)
    x = _read_all(files)
    if preprocessing is not None:
        _check_shape(path, x, preprocessing)
    return Labelled(x, torch.tensor(codes)), classes


def _parts_in(path: Path) -> dict[str, Path]:
    """The folders of data that are split already: one to train, one to validate, perhaps one to test; else none."""
    names = {folder.name for folder in _folders_in(path)}
    found = {part: next((name for name in known if name in names), None) for part, known in PARTS.items()}
    parts = {part: path / name for part, name in {"train": "train", **found}.items() if name in names}
    whole = {"train", "valid"} <= parts.keys() and names == {folder.name for folder in parts.values()}
    return parts if whole and not any(_images_in(folder) for folder in parts.values()) else {}


def _folders_in(path: Path) -> list[Path]:
    return sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def _images_in(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")
    )


def _read_all(files: list[Path]) -> Tensor:
    """The images as (N, channels, height, width) in [0, 1]; all must look like the first."""
    first = _read(files[0])
    pixels = np.empty((len(files), *first.shape), dtype=np.uint8)
    for place, file in enumerate(files):
        image = _read(file)
        if image.shape != first.shape:
            raise DataError(
                f"all images must agree: {file} is {_looks(image.shape)}, but {files[0]} is {_looks(first.shape)}"
            )
        pixels[place] = image
    return torch.from_numpy(pixels).float() / (LEVELS - 1)


def _read(file: Path) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(file) as image:
            if image.mode not in CHANNELS:
                raise DataError(f"{file} has the mode {image.mode}; convert it to 8-bit grey (L) or colour (RGB)")
            pixels = np.asarray(image).reshape(image.height, image.width, CHANNELS[image.mode])
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} is no readable image: {error}") from error
    return np.moveaxis(pixels, -1, 0)


def _check_shape(path: Path, x: Tensor, preprocessing: Mapping[str, Any]) -> None:
    found, known = tuple(x.shape[1:]), tuple(preprocessing["shape"])
    if found != known:
        raise DataError(f"the images in {path} are {_looks(found)}, but the training data are {_looks(known)}")


def _looks(shape: tuple[int, ...]) -> str:
    channels, height, width = shape
    return f"{width}x{height} {'grey' if channels == 1 else 'colour'}"
