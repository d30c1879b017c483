"""Folders of images in which something is no image: pipes, devices, bombs, damaged files, names of any bytes."""

from __future__ import annotations

import io
import os
import random
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from tests.attacks._frame import Trial, fault
from tests.attacks._installed import run_installed

SIZES = ("", ":size=8", ":size=1", ":size=99999", ":size=0", ":size=999999999999", ":size=x", ":size=8:size=9")


class Attack:
    """A folder of two classes of images with one thing or more that is none."""

    FAST, SLOW = 1, 6

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        photos = folder / "photos"
        for number in range(24):
            place = photos / ("cats", "dogs")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number:02}.png").write_bytes(_picture(chance))
        ways = [chance.choice(WAYS) for _ in range(chance.choice([1, 1, 2]))]
        for way in ways:
            way(photos, chance)
        size = chance.choice(SIZES) if chance.random() < 0.5 else chance.choice(SIZES[:2])
        words = ["train", chance.choice(["mlp", "cnn"]), "--data", f"photos{size}", "--steps", "1", "--out", "run"]
        what = " and ".join(way.__name__.lstrip("_") for way in ways)
        return Trial(f"{what}: deepcanon {' '.join(words)}", fault(run_installed(words, folder)))


def _picture(chance: random.Random, mode: str = "RGB", side: int = 8, kind: str = "PNG") -> bytes:
    pixels = np.random.default_rng(chance.randrange(2**32)).integers(0, 255, (side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, kind)
    return file.getvalue()


def _place(photos: Path, chance: random.Random) -> Path:
    return photos / chance.choice(["cats", "dogs"]) / chance.choice(["00.png", "zz.png", "zz.jpg"])


def _pipe(photos: Path, chance: random.Random) -> None:
    path = _place(photos, chance)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _link(photos: Path, chance: random.Random) -> None:
    path = _place(photos, chance)
    path.unlink(missing_ok=True)
    os.symlink(chance.choice(["/dev/zero", "/dev/null", "/dev/full", "/nowhere", ".", str(path)]), path)


def _folder(photos: Path, chance: random.Random) -> None:
    path = _place(photos, chance)
    path.unlink(missing_ok=True)
    path.mkdir()


def _bytes(photos: Path, chance: random.Random) -> None:
    content = chance.choice(
        [b"", b"x", b"\0" * 5000, b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xe0" + b"x" * 500]
    )
    _place(photos, chance).write_bytes(content)


def _damaged(photos: Path, chance: random.Random) -> None:
    content = bytearray(_picture(chance, kind=chance.choice(["PNG", "JPEG"])))
    for _ in range(chance.choice([1, 5, 40])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    _place(photos, chance).write_bytes(content[: chance.choice([len(content), len(content) // 2])])


def _bomb(photos: Path, chance: random.Random) -> None:
    """A small file that says to be a huge image."""
    side = chance.choice([20_000, 60_000, 2**31 - 1])

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    packed = chunk(b"IDAT", zlib.compress(b"\0" * 1_000_000))
    _place(photos, chance).write_bytes(b"\x89PNG\r\n\x1a\n" + header + packed + chunk(b"IEND", b""))


def _mode(photos: Path, chance: random.Random) -> None:
    _place(photos, chance).write_bytes(_picture(chance, chance.choice(["L", "P", "1", "RGBA", "LA"])))


def _shape(photos: Path, chance: random.Random) -> None:
    _place(photos, chance).write_bytes(_picture(chance, side=chance.choice([1, 9, 300])))


def _name(photos: Path, chance: random.Random) -> None:
    name = chance.choice(["caf\udce9", "日本", "a b", "x" * 250, "[red]", "-n", "$x$", "%s", "a\nb", "\u202e"])
    place = photos / name
    place.mkdir(exist_ok=True)
    for number in range(8):
        (place / f"{number}{chance.choice(['', chr(0xDCE9)])}.png").write_bytes(_picture(chance))


def _empty(photos: Path, chance: random.Random) -> None:
    (photos / chance.choice(["nothing", "train", "val"])).mkdir(exist_ok=True)


def _forbidden(photos: Path, chance: random.Random) -> None:
    chance.choice([photos / "cats", photos / "cats" / "00.png"]).chmod(0)


WAYS = (_pipe, _link, _folder, _bytes, _damaged, _bomb, _mode, _shape, _name, _empty, _forbidden)
