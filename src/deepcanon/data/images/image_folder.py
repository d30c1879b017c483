"""Folders of images: with one sub-folder per class, perhaps split already (as ImageNet is), or without labels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import Batch, DataError, Labeled, UsageError
from deepcanon.core.hints import listed
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes
from deepcanon.data.file_kind import FileKind
from deepcanon.data.images.image_files import LEVELS, SUFFIXES, ImageFiles, Reader, shape_in_words
from deepcanon.data.split import cut, fixed_random, stratified_order, three_counts

MARK = "size="
"""The beginning of the suffix that has all images cropped and resized to one size."""
IN_MEMORY = 2**30
"""The most bytes of images that are kept in memory; where there are more, all stay in their files."""
PARTS = {"valid": ("val", "valid"), "test": ("test",)}
"""The names of the sub-folders next to ``train`` in data that are split already."""


def load(path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None) -> Dataset[Any]:
    """The images of a folder, split by a fixed seed and stratified by class.

    Where its sub-folders are ``train`` and ``val``, and perhaps ``test``, each with one sub-folder per class, as those
    of ImageNet are, these are the splits. Images may have different sizes and colors if a form gives a size: each is
    center-cropped to its largest square and resized. With the ``preprocessing`` of an earlier load, classes keep their
    codes and images must have the same shape. Images that lie in the folder itself have no labels.
    """
    size = read_form(str(path), *forms) if forms else None
    if path.is_file():
        raise DataError(
            f"{path} is one image; a model is trained on a folder of them, with a sub-folder for each class"
        )
    if _images_in(path) and not _folders_in(path):
        return _unlabeled(path, preprocessing, size)
    parts = _parts_in(path)
    whole, classes = _labeled(parts.get("train", path), preprocessing, size)
    shape = whole.reader.shape
    fitted = {"classes": list(classes), "shape": list(shape), "levels": LEVELS}
    fitted |= {"size": size, "form": f"{MARK}{size}"} if size else {}
    test: ImageFiles | None
    if parts:
        train, valid = whole, _labeled(parts["valid"], fitted, size)[0]
        test = _labeled(parts["test"], fitted, size)[0] if "test" in parts else None
    else:
        counts = three_counts(len(whole), str(path))
        train, valid, test = (whole.part(rows) for rows in cut(stratified_order(whole.y.numpy(), seed=0), counts))
    return Dataset(
        name=f"{path}:{MARK}{size}" if size else str(path),
        kind="images",
        train=held(train),
        valid=held(valid),
        test=None if test is None else held(test),
        sizes=image_sizes(shape, classes=len(classes)),
        shape=shape,
        labels=classes,
        source=str(path.resolve()),
        preprocessing=fitted,
    )


def _unlabeled(path: Path, preprocessing: Mapping[str, Any] | None, size: int | None) -> Dataset[Batch]:
    """The images that lie in a folder, all in memory, split by a fixed seed."""
    files = _images_in(path)
    reader = reader_for(path, files[0], preprocessing, size)
    counts = three_counts(len(files), str(path))
    images = reader(files)
    train, valid, test = (Batch(images[rows]) for rows in cut(fixed_random(0).permutation(len(files)), counts))
    fitted = {"shape": list(reader.shape), "levels": LEVELS} | ({"size": size, "form": f"{MARK}{size}"} if size else {})
    return Dataset(
        name=f"{path}:{MARK}{size}" if size else str(path),
        kind="images",
        train=train,
        valid=valid,
        test=test,
        sizes=image_sizes(reader.shape),
        shape=reader.shape,
        source=str(path.resolve()),
        preprocessing=fitted,
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Batch:
    """All images of a folder, or one, preprocessed for a model trained on another; without sub-folders, without labels.

    Unless images are to be ``labeled``, and those of the training were, the names of sub-folders are ignored.
    """
    labeled = labeled and bool(preprocessing.get("classes"))
    files = images_of(path) if path.is_file() or not labeled else _images_in(path)
    size = preprocessing.get("size")
    if not files:
        return held(_labeled(path, preprocessing, size)[0])
    return Batch(reader_for(path, files[0], preprocessing, size)(files))


def images_of(path: Path) -> list[Path]:
    """The images that a path names, in their order: itself, those of a folder, or those of its sub-folders."""
    if path.is_file():
        return [path]
    return _images_in(path) or [image for folder in _folders_in(path) for image in _images_in(folder)]


def left_out(path: Path) -> int:
    """How many files of a folder and its sub-folders are not images by their names, and are not read."""
    if path.is_file():
        return 0
    files = [file for folder in (path, *_folders_in(path)) for file in folder.iterdir() if not file.is_dir()]
    return sum(not file.name.startswith(".") and file.suffix.lower() not in SUFFIXES for file in files)


def read_image(file: Path) -> Batch:
    """One image as a batch of one, (1, channels, height, width) in [0, 1]."""
    return Batch(Reader.for_images_like(file)([file]))


def read_images(files: Sequence[Path], preprocessing: Mapping[str, Any]) -> Tensor:
    """The images of these files, (N, channels, height, width) in [0, 1], for a model trained on others."""
    return reader_for(files[0], files[0], preprocessing, preprocessing.get("size"))(files)


def read_form(name: str, form: str) -> int:
    """The size that a form asks for.

    >>> read_form("photos", "size=64")
    64
    """
    found = re.fullmatch(rf"{MARK}([1-9]\d*)", form)
    if found is None:
        raise UsageError(f"images are cut to one size by {name}:{MARK}64; got {name}:{form}")
    return int(found[1])


def _labeled(
    path: Path, preprocessing: Mapping[str, Any] | None, size: int | None
) -> tuple[ImageFiles, tuple[str, ...]]:
    folders = _folders_in(path)
    if not folders:
        raise DataError(
            f"{path} has neither images ({', '.join(SUFFIXES[:4])} ...) nor a sub-folder of them for each class"
        )
    classes = tuple(_class_name(folder) for folder in folders)
    if preprocessing is not None:
        if "classes" not in preprocessing:
            raise DataError(f"this preprocessing is not that of a folder of images: it has {listed(preprocessing)}")
        classes = tuple(preprocessing["classes"])
    files: list[Path] = []
    codes: list[int] = []
    for folder in folders:
        if folder.name not in classes:
            raise DataError(
                f"{folder} is a class that does not occur in the training data, which have {listed(classes)}"
            )
        images = _images_in(folder)
        if not images:
            raise DataError(f"{folder} has no images ({', '.join(SUFFIXES)})")
        files += images
        codes += [classes.index(folder.name)] * len(images)
    return ImageFiles(files, torch.tensor(codes), reader_for(path, files[0], preprocessing, size)), classes


def reader_for(path: Path, first: Path, preprocessing: Mapping[str, Any] | None, size: int | None) -> Reader:
    """A reader of images like the first, which must have the shape of the training data where these are given."""
    reader = Reader.for_images_like(first, size)
    if preprocessing is None:
        return reader
    known = tuple(preprocessing["shape"])
    if size is not None:
        return replace(reader, shape=known)
    if reader.shape != known:
        given, wanted = shape_in_words(reader.shape), shape_in_words(known)
        raise DataError(f"the images in {path} are {given}, but the training data are {wanted}")
    return reader


def held(images: ImageFiles) -> Labeled:
    """The images in memory if they are few, else in their files, each checked to have the right shape."""
    if len(images) * math.prod(images.reader.shape) * 4 <= IN_MEMORY:
        return Labeled(images.x, images.y)
    images.reader.check(images.files)
    return images


def _parts_in(path: Path) -> dict[str, Path]:
    """The folders of the splits of data that are split already: train, validation, perhaps test; else none."""
    names = {folder.name for folder in _folders_in(path)}
    found = {part: next((name for name in known if name in names), None) for part, known in PARTS.items()}
    parts = {part: path / name for part, name in {"train": "train", **found}.items() if name in names}
    whole = {"train", "valid"} <= parts.keys() and names == {folder.name for folder in parts.values()}
    return parts if whole and not any(_images_in(folder) for folder in parts.values()) else {}


def _folders_in(path: Path) -> list[Path]:
    return sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def _class_name(folder: Path) -> str:
    """The class whose images a folder holds; it is written into the run, which a name of any bytes cannot be."""
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{folder.parent} has a class {folder.name!r}, which is not UTF-8; rename the folder") from None
    return folder.name


def _images_in(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")
    )


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return path.is_dir() or (path.is_file() and path.suffix.lower() in SUFFIXES)


IMAGES = FileKind("images", _recognizes, load, apply, forms={MARK: "a folder of images, whose sizes may differ"})
