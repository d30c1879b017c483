"""Downloads of data files: resumed, checked by SHA-256, and under their own name only when complete."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen
from zipfile import BadZipFile

from deepcanon.core import DataError, DownloadError
from deepcanon.core.files import sync_folder

VARIABLE = "DEEPCANON_DATA"
TIMEOUT = 20.0
"""Seconds without a byte after which a mirror is given up."""
CHUNK = 1 << 18
BROKEN_ARCHIVE = (
    OSError, EOFError, LookupError, TypeError, ValueError, RuntimeError, OverflowError, BadZipFile, zlib.error,
    struct.error,
)  # fmt: skip
"""The errors that reading a damaged zip file can end in: one flipped bit may ask for a password or another method."""


@dataclass(frozen=True)
class RemoteFile:
    """A published file, identified by its size in bytes and its SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Remote:
    """Files of a data set, stored in the sub-folder ``folder`` of the data folders, and mirrors that have them all.

    >>> Remote().here()
    True
    """

    folder: str | None = None
    mirrors: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()

    def here(self) -> bool:
        """Whether nothing must be downloaded."""
        return all(self.find(file) for file in self.files)

    def fetch(self) -> list[Path]:
        """The files on this disk, downloaded where they are missing and checked in any case."""
        return [self._checked(file) for file in self.files]

    def find(self, file: RemoteFile) -> Path | None:
        """The path of the file on this disk, if it is there; its content is not checked."""
        paths = (folder / (self.folder or "") / file.name for folder in data_folders())
        return next((path for path in paths if path.is_file()), None)

    def _checked(self, file: RemoteFile) -> Path:
        path = self.find(file)
        if path is None:
            return download(file, self.mirrors, data_folders()[0] / (self.folder or ""))
        if sha256_of(path) != file.sha256:
            raise DataError(f"{path} is damaged: its SHA-256 is not {file.sha256}; remove it to download it again")
        return path


class MirrorError(Exception):
    """A failure of one mirror; the next may work."""


def data_folders() -> list[Path]:
    """The folders of the data: ``$DEEPCANON_DATA`` if it is set, then the user's cache. Downloads go to the first."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deepcanon"
    chosen = os.environ.get(VARIABLE)
    return [Path(chosen).expanduser(), cache] if chosen else [cache]


def download(file: RemoteFile, mirrors: tuple[str, ...], folder: Path) -> Path:
    """The file in ``folder``, from the first mirror that delivers it whole.

    It is written under the name ``….part``, from which a later attempt continues; it gets its own name only when its
    SHA-256 is right.
    """
    path = folder / file.name
    folder, part = path.parent, path.with_name(f"{path.name}.part")
    failures = []
    with _writing(folder), _alone_in(folder):
        if path.is_file():  # another process was faster
            return path
        for mirror in mirrors:
            url = mirror + file.name
            sys.stderr.write(f"downloading {url} ({file.size / 1e6:.1f} MB)\n")
            try:
                _obtain(url, part, file)
            except MirrorError as error:
                failures.append(f"{url}: {error}")
                continue
            os.replace(part, path)
            sync_folder(folder)
            return path
    raise DownloadError(
        f"{file.name} could not be downloaded ({'; '.join(failures)}); try again later, or put the file into {folder}"
    )


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _obtain(url: str, part: Path, file: RemoteFile) -> None:
    """Complete ``part``. A wrong file is removed, and fetched once more if an earlier attempt had begun it."""
    resumed = _receive(url, part, file)
    if sha256_of(part) == file.sha256:
        return
    part.unlink()
    if not resumed:
        raise MirrorError("its SHA-256 is wrong, so the file was altered")
    _obtain(url, part, file)


def _receive(url: str, part: Path, file: RemoteFile) -> bool:
    """Append to ``part`` what it still lacks; True if it had something already."""
    have = part.stat().st_size if part.exists() else 0
    if have >= file.size:
        return True
    request = Request(url, headers={"User-Agent": "deepcanon"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with _opened(request) as response:
        start = _start(response, have, file)
        with part.open("ab" if start else "wb") as stream:
            _copy(response, stream, file)
            stream.flush()
            os.fsync(stream.fileno())  # the bytes must be on the disk before they get their name
    received = part.stat().st_size
    if received < file.size:
        raise MirrorError(f"it stopped after {received} of {file.size} bytes")
    return start > 0


@contextmanager
def _opened(request: Request) -> Iterator[HTTPResponse]:
    try:
        response = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        with error:
            raise MirrorError(f"HTTP {error.code} {error.reason}") from error
    except URLError as error:
        raise MirrorError(str(error.reason)) from error
    except (OSError, HTTPException) as error:
        raise MirrorError(str(error) or type(error).__name__) from error
    with response:
        yield response


def _start(response: HTTPResponse, have: int, file: RemoteFile) -> int:
    """The position of the first byte that comes; a server may ignore that only the rest was asked for."""
    start = 0
    if response.status == 206:
        start = have
        span = response.headers.get("Content-Range", "")
        if not span.startswith(f"bytes {have}-"):
            raise MirrorError(f"asked for the bytes from {have} on, it sends {span or 'others'}")
    if response.length is not None and start + response.length != file.size:
        raise MirrorError(f"it has {start + response.length} bytes instead of {file.size}")
    return start


def _copy(response: HTTPResponse, stream: BinaryIO, file: RemoteFile) -> None:
    """Copy all that comes, but not much more than the file has: too much is wrong by its SHA-256 in any case."""
    while stream.tell() <= file.size:
        try:
            chunk = response.read(CHUNK)
        except (OSError, HTTPException) as error:
            raise MirrorError(f"it broke off: {error or type(error).__name__}") from error
        if not chunk:
            return
        stream.write(chunk)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn errors of this disk into one that names the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DownloadError(
            f"cannot write to {folder}: {error.strerror or error}; make room, or set {VARIABLE} to another folder"
        ) from error


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let other processes that download into this folder wait."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
