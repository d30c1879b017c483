"""Image files: read in one shape, resized and center-cropped on request, and left on disk where they are too many."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, Labeled
from deepcanon.core.memory import need

if TYPE_CHECKING:
    from PIL import Image

Found = TypeVar("Found")

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".jp2", ".avif", ".tga")
CHANNELS = {"1": 1, "L": 1, "LA": 1, "P": 3, "RGB": 3, "RGBA": 3, "PA": 3, "CMYK": 3, "YCbCr": 3}
"""The modes that are read, all of 8 bits: as gray or as color. Alpha must be opaque everywhere."""
LEVELS = 256
BYTES = 9
"""The bytes that a value takes while it is read: as a level, as a number, and as that number divided."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Reader:
    """A reader of images of one shape, (channels, height, width), that of ``like``.

    With a ``size`` the images may have any shape: each is center-cropped to its largest square, which is resized to so
    many pixels a side, and converted to the number of channels.
    """

    shape: Shape
    like: str
    """The image that has this shape, for messages."""
    size: int | None = None

    @classmethod
    def for_images_like(cls, file: Path, size: int | None = None) -> Reader:
        if size is None:
            return cls(_pixels(file, None).shape, str(file))
        need(BYTES * 3 * size**2, f"an image of {size:,} x {size:,} pixels", "take a smaller size")
        gray = _opened(file, lambda image: image.mode in ("1", "L", "I;16"))
        return cls((1 if gray else 3, size, size), str(file), size)

    def __call__(self, files: Sequence[Path]) -> Tensor:
        """The images as (N, channels, height, width) in [0, 1]."""
        what = f"reading {len(files):,} images, {shape_in_words(self.shape)}, at once"
        need(BYTES * len(files) * math.prod(self.shape), what, "take a smaller batch_size, or FOLDER:size=64")
        pixels = np.empty((len(files), *self.shape), dtype=np.uint8)
        for row, file in enumerate(files):
            image = _pixels(file, self)
            self._must_fit(file, image.shape)
            pixels[row] = image
        return torch.from_numpy(pixels).float() / (LEVELS - 1)

    def check(self, files: Sequence[Path]) -> None:
        """Refuse images of another shape, judged by the headers of the files."""
        for file in files if self.size is None else ():
            mode, (width, height) = _opened(file, lambda image: (image.mode, image.size))
            self._must_fit(file, (_known_channels(mode, file), height, width))

    def _must_fit(self, file: Path, shape: Shape) -> None:
        if shape != self.shape:
            raise DataError(
                f"all images must agree: {file} is {shape_in_words(shape)}, but {self.like} is "
                f"{shape_in_words(self.shape)}; write FOLDER:size=64 to have all cut to 64x64"
            )


class ImageFiles(Labeled):
    """Labeled images that stay in their files: a selection reads its images and no others.

    ``x`` reads all of them at once, anew each time.
    """

    in_memory = False
    files: tuple[Path, ...]
    reader: Reader

    def __init__(self, files: Sequence[Path], y: Tensor, reader: Reader, device: torch.device | str = "cpu") -> None:
        # Not by the dataclass: x is not a field here.
        self.__dict__.update(files=tuple(files), y=y.to(device), reader=reader)

    def _facts(self) -> dict[str, Any]:
        return {"files": len(self), "shape": self.reader.shape, "y": self.y}

    @property
    def x(self) -> Tensor:
        return self.reader(self.files).to(self.device)

    @property
    def device(self) -> torch.device:
        return self.y.device

    def __len__(self) -> int:
        return len(self.files)

    def select(self, index: Tensor) -> Labeled:  # type: ignore[override]
        """The images at these positions, read."""
        x = self.reader([self.files[row] for row in index.tolist()])
        return Labeled(x.to(self.device), self.y.index_select(0, index), positions=self._places(index))

    def part(self, index: Tensor) -> Self:
        return type(self)([self.files[row] for row in index.tolist()], self.y[index], self.reader, self.device)

    def to(self, device: torch.device | str) -> Self:
        return type(self)(self.files, self.y, self.reader, device)

    def digest(self) -> bytes:
        """A hash that identifies the images without reading them, from file names, file sizes and labels."""
        known = hashlib.sha256(f"{self.reader.shape}".encode())
        for file, label in zip(self.files, self.y.tolist(), strict=True):
            known.update(
                f"{file.parent.name}/{file.name} {file.stat().st_size} {label}\n".encode(errors="surrogateescape")
            )
        return known.digest()


def shape_in_words(shape: Shape) -> str:
    """A shape in words.

    >>> shape_in_words((3, 24, 32))
    '32x24 color'
    """
    channels, height, width = shape
    return f"{width}x{height} {'gray' if channels == 1 else 'color'}"


def _pixels(file: Path, reader: Reader | None) -> NDArray[np.uint8]:
    """The image as (channels, height, width), cut to the size that the reader asks for."""
    from PIL import Image, ImageOps

    def read(image: Image.Image) -> NDArray[np.uint8]:
        _refuse_what_is_hidden(image, file)
        if reader is not None and reader.size is not None:
            colors = image.convert("L" if reader.shape[0] == 1 else "RGB")
            image = ImageOps.fit(colors, (reader.size, reader.size), Image.Resampling.BILINEAR)
        channels = _known_channels(image.mode, file)
        plain = image.convert("L" if channels == 1 else "RGB")
        return np.asarray(plain).reshape(image.height, image.width, channels)

    return np.moveaxis(_opened(file, read), -1, 0)


def _refuse_what_is_hidden(image: Image.Image, file: Path) -> None:
    """Refuse an image of which a plain one would show a part: several frames, or pixels that are transparent."""
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        raise DataError(f"{file} has {frames} frames; save those that are meant as images of their own")
    if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema() != (255, 255):
        raise DataError(f"{file} has transparent pixels; put it onto a background first")


def _known_channels(mode: str, file: Path) -> int:
    if mode not in CHANNELS:
        raise DataError(f"{file} has the mode {mode}; convert it to 8-bit gray (L) or color (RGB)")
    return CHANNELS[mode]


def _opened(file: Path, read: Callable[[Image.Image], Found]) -> Found:
    """The result of ``read`` on the image of this file."""
    from PIL import Image

    try:
        if file.exists() and not file.is_file():  # a pipe would be waited for, a device may have no end
            raise DataError(f"{file} is a pipe, a device or a folder, not an image; take it out")
        with Image.open(file) as image:
            return read(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} is not a readable image: {error}") from error
