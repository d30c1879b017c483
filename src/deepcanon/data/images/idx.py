"""The idx format of the MNIST family: a magic number, the sizes of the dimensions, the bytes."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError

UNSIGNED_BYTE = 0x08


def read_gz(path: Path) -> NDArray[np.uint8]:
    """The array in a compressed idx file."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a readable gzip file: {error}") from error
    return parse(content, str(path))


def parse(content: bytes, what: str = "the idx file") -> NDArray[np.uint8]:
    """The array in the bytes of an idx file of unsigned bytes.

    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])).tolist()
    [7, 8, 9]
    """
    if len(content) < 4 or content[:2] != b"\0\0":
        raise DataError(f"{what} does not begin with an idx magic number but with {content[:4].hex() or 'nothing'}")
    kind, dimensions = content[2], content[3]
    if kind != UNSIGNED_BYTE:
        raise DataError(f"{what} must hold unsigned bytes (type 0x08), it holds type {kind:#04x}")
    begin = 4 + 4 * dimensions
    if dimensions == 0 or len(content) < begin:
        raise DataError(f"{what} ends inside its header: {dimensions} dimensions, {len(content)} bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=dimensions, offset=4))
    if len(content) - begin != math.prod(shape):
        raise DataError(f"{what} must hold {shape} = {math.prod(shape)} bytes, it holds {len(content) - begin}")
    return np.frombuffer(content, dtype=np.uint8, offset=begin).reshape(shape)
