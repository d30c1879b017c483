"""Arrays from files of NumPy, ``.npy`` and ``.npz``: rows or images, with labels and splits if these are there.

Their names in an ``.npz`` file say what they are: ``x`` or ``images`` and ``y`` or ``labels``, as they are or with the
split before or after them, ``x_train`` or ``train_images``. Files that hold Python objects are refused: reading them
runs code.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import Batch, DataError
from deepcanon.core.hints import listed
from deepcanon.core.memory import need
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset, Kind
from deepcanon.data.file_kind import FileKind
from deepcanon.data.images.image_files import LEVELS
from deepcanon.data.split import cut, stratified_order, three_counts
from deepcanon.data.tensors import from_tensors

SUFFIXES = (".npy", ".npz")
PARTS = {"x": "x", "images": "x", "data": "x", "y": "y", "labels": "y", "target": "y", "targets": "y"}
"""What an array is, by its name in lower case."""
SPLITS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}
"""The split that an array is of, by the word before or after its name."""
BYTES = 3
"""For each byte of a file, so many are taken while it is read."""

Array = NDArray[Any]


def load(path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None) -> Dataset[Any]:
    """The arrays of a file, as they are; without splits of their own they are split by a fixed seed, by class.

    Whole numbers ``y`` are classes, real numbers are targets. Images of bytes become numbers from 0 to 1; those without
    channels, (N, height, width), are gray, and channels that come last are put first.
    """
    arrays = _read(path)
    if "train" not in arrays:
        there = " and ".join(f"x_{split}" for split in arrays)
        raise DataError(
            f"{path} has only {there}, which nothing is trained on; name the training examples x or x_train"
        )
    parts = {split: _examples(path, arrays[split]) for split in ("train", "valid", "test") if split in arrays}
    train = parts.pop("train")
    if not parts:
        x, y = train
        classes = y if y is not None and y.ndim == 1 and not np.issubdtype(y.dtype, np.floating) else np.zeros(len(x))
        rows = cut(stratified_order(np.unique(classes, return_inverse=True)[1], 0), three_counts(len(x), str(path)))
        train, parts["valid"], parts["test"] = ((x[some], None if y is None else y[some]) for some in rows)
    data = from_tensors(*train, name=str(path), **{name: _given(part) for name, part in parts.items()})
    saved: dict[str, Any] = {"shape": list(data.shape)}
    if data.kind == "images" and arrays["train"]["x"].dtype == np.uint8:
        saved["levels"] = LEVELS
    return replace(data, source=str(path.resolve()), preprocessing=saved)


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Batch:
    """All examples of a file, of its test split if it has one, with their labels if they have some."""
    arrays = _read(path)
    x, y = _examples(path, arrays[next(split for split in ("test", "train", "valid") if split in arrays)])
    batch: Batch = from_tensors(x, y if labeled else None).train
    return batch


def _given(part: tuple[Array, Array | None]) -> Any:
    return part[0] if part[1] is None else part


def _read(path: Path) -> dict[str, dict[str, Array]]:
    """The arrays x and perhaps y of each split; those without a split are those of the training."""
    try:
        if path.suffix.lower() == SUFFIXES[0]:
            need(BYTES * path.stat().st_size, f"reading {path}", "take some of its rows")
            return {"train": {"x": np.load(path, allow_pickle=False)}}
        with np.load(path, allow_pickle=False) as file:
            need(
                BYTES * sum(each.file_size for each in file.zip.infolist()), f"reading {path}", "take some of its rows"
            )
            found: dict[str, dict[str, Array]] = {}
            for name in file.files:
                split, part = _meaning(path, name) if len(file.files) > 1 or _is_named(name) else ("train", "x")
                if part in found.setdefault(split, {}):
                    raise DataError(f"{path} has the {part} of its {split} split twice: {listed(file.files)}")
                found[split][part] = file[name]
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        reason = "it holds Python objects" if "allow_pickle" in str(error) else str(error).splitlines()[0][:200]
        raise DataError(f"{path} is not read as arrays of numbers: {reason}") from error
    for split, arrays in found.items():
        if "x" not in arrays:
            raise DataError(f"{path} has no examples x of its {split} split; it has {listed(file.files)}")
    return found


def _is_named(name: str) -> bool:
    """Whether the name of an array says what it is."""
    try:
        return bool(_meaning(Path(), name))
    except DataError:
        return False


def _meaning(path: Path, name: str) -> tuple[str, str]:
    """The split and the part that an array of this name is.

    >>> _meaning(Path("a.npz"), "x_train"), _meaning(Path("a.npz"), "val_labels"), _meaning(Path("a.npz"), "Y")
    (('train', 'x'), ('valid', 'y'), ('train', 'y'))
    """
    words = [word for word in re.split(r"[_.\s-]+", name.lower()) if word]
    splits = [SPLITS[word] for word in words if word in SPLITS]
    parts = [PARTS[word] for word in words if word in PARTS]
    if len(parts) != 1 or len(splits) > 1 or len(words) != len(parts) + len(splits):
        raise DataError(
            f"{path} has an array {name!r}; arrays are named x and y, or x_train, y_train, x_valid, y_valid, x_test "
            "and y_test, with images and labels in place of x and y where you like"
        )
    return (*(splits or ["train"]), *parts)  # type: ignore[return-value]


def _examples(path: Path, arrays: Mapping[str, Array]) -> tuple[Array, Array | None]:
    """The examples as rows, (N, features), or images, (N, channels, height, width), and their labels."""
    x, y = arrays["x"], arrays.get("y")
    for name, values in arrays.items():
        if not (np.issubdtype(values.dtype, np.number) or values.dtype == np.bool_):
            raise DataError(f"{path}: {name} must hold numbers, got {values.dtype}")
        if not len(values.shape) or not len(values):
            raise DataError(f"{path}: {name} has no examples, its shape is {values.shape}")
    if y is not None and len(y) != len(x):
        raise DataError(f"{path}: every example needs one label: got {len(x)} examples and {len(y)} labels")
    if y is not None and y.ndim == 2 and y.shape[1] == 1 and not np.issubdtype(y.dtype, np.floating):
        y = y[:, 0]
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        x = np.moveaxis(x, -1, 1)
    if x.ndim == 4 and x.dtype == np.uint8:
        x = x.astype(np.float32) / (LEVELS - 1)
    return np.ascontiguousarray(x), y


def _axes(path: Path) -> int | None:
    """How many axes the examples of a file have, by the headers of its arrays; None where it cannot be read."""
    try:
        if path.suffix.lower() == SUFFIXES[0]:
            return int(np.load(path, mmap_mode="r", allow_pickle=False).ndim)
        with zipfile.ZipFile(path) as file:
            names = [each.removesuffix(".npy") for each in file.namelist()]
            found = next(name for name in names if len(names) == 1 or _meaning(path, name)[1] == "x")
            with file.open(f"{found}.npy") as array:
                version = np.lib.format.read_magic(array)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                return len(read(array)[0])
    except (OSError, ValueError, DataError, StopIteration, zipfile.BadZipFile, EOFError):  # said when it is read
        return None


def _kind(kind: Kind, images: bool) -> FileKind:
    def recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
        return path.suffix.lower() in SUFFIXES and not path.is_dir() and (_axes(path) in (3, 4)) == images

    return FileKind(kind, recognizes, load, apply)


ARRAY_ROWS, ARRAY_IMAGES = _kind("table", False), _kind("images", True)
