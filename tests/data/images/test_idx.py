"""The idx reader gives back what was written and refuses every damage."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from deepcanon.core import DataError
from deepcanon.data.images.idx import parse, read_gz


def written(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (0, 28, 28)])
def test_round_trip(shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(written(array)))
    assert np.array_equal(parse(written(array)), array)
    assert np.array_equal(read_gz(file), array)


GOOD = written(np.arange(12, dtype=np.uint8).reshape(3, 4))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "begin with an idx magic number but with nothing"),
        (b"\x89PNG" + GOOD, "but with 89504e47"),
        (GOOD[:2] + b"\x0d" + GOOD[3:], "must hold unsigned bytes .* type 0x0d"),
        (GOOD[:3] + b"\0" + GOOD[4:], "ends inside its header: 0 dimensions"),
        (GOOD[:9], "ends inside its header: 2 dimensions, 9 bytes"),
        (GOOD[:-1], r"must hold \(3, 4\) = 12 bytes, it holds 11"),
        (GOOD + b"\0", "it holds 13"),
    ],
)
def test_damage_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        parse(content)


@pytest.mark.parametrize(
    "content",
    [GOOD, gzip.compress(GOOD)[:-9], b"", gzip.compress(GOOD)[:-8] + b"\0" * 8],
    ids=["not compressed", "cut", "empty", "wrong checksum"],
)
def test_damaged_gzip_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "damaged.gz"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged\.gz"):
        read_gz(file)
