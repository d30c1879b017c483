"""Atomic writes of files: to a temporary name, synced, renamed, never through links; and sealed JSON."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from deepcanon.core.errors import CheckpointError, UsageError
from deepcanon.core.stored import MOST_JSON, held_to, parse_json, read_file

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag; there links are only looked for


def write_whole(path: Path, content: bytes | str) -> None:
    """Write ``content`` so that after a crash the file holds either the old content or the new.

    What is not UTF-8 in a text, as names of files may be, is written as ``\\udcff``, which JSON reads as what it was.
    """
    refuse_links(path)
    temporary = path.with_name(f".writing-{path.name}-{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)  # of a process that had the same number and was killed here
        write_synced(temporary, content.encode(errors="backslashreplace") if isinstance(content, str) else content)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(f"could not write {path}: {error.strerror}; what was there before is intact") from error


@contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """A text file that is written bit by bit, under a temporary name until all of it is there."""
    refuse_links(path)
    temporary = path.with_name(f".writing-{path.name}-{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = open_plain(temporary, os.O_WRONLY | os.O_EXCL)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"could not write {path}: {error.strerror}; what was there before is intact") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all; NaN and infinity, which JSON does not have, become null."""
    write_whole(path, json.dumps(as_json(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def as_json(value: Any) -> Any:
    """The value in JSON's own types; NaN and infinity, which JSON does not have, are null.

    >>> as_json({"loss": float("nan"), "run": Path("runs/a")})
    {'loss': None, 'run': 'runs/a'}
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def refuse_links(*paths: Path) -> None:
    """Refuse to write where a symbolic link stands: it may lead to any file of the user's."""
    for path in paths:
        if path.is_symlink():
            raise UsageError(
                f"{path} is a symbolic link, and nothing is written through one: remove it, or choose another"
            )


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of a file to write, which is made if it is not there; never of what a link leads to."""
    refuse_links(path)
    return os.open(path, flags | os.O_CREAT | _NO_LINK | getattr(os, "O_BINARY", 0), 0o666)


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with open(open_plain(path, os.O_WRONLY | os.O_EXCL), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename inside ``folder`` survive a power cut; Windows has no way to ask for it."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def seal(content: Mapping[str, Any]) -> bytes:
    """JSON that carries the SHA-256 of its other content.

    >>> unseal(seal({"a": 1}), Path("x.json"))
    {'a': 1}
    """
    return _dump({**content, "seal": hashlib.sha256(_dump(content)).hexdigest()})


def unseal(raw: bytes, path: Path) -> dict[str, Any]:
    """The content of sealed JSON; any bit that differs from what was written is an error."""
    content = parse_json(raw, path)
    if not isinstance(content, dict) or not isinstance(content.pop("seal", None), str):
        raise CheckpointError(f"{path} is damaged: it is not sealed JSON")
    try:
        whole = seal(content) == raw
    except ValueError:  # a number beyond those of JSON, which was never written
        whole = False
    if not whole:
        raise CheckpointError(f"{path} is damaged: it does not match its own checksum")
    return content


def read_sealed(path: Path, schema: Any, most: int = MOST_JSON) -> Any:
    """The content of a file of sealed JSON, held to its schema."""
    return held_to(schema, unseal(read_file(path, most), path), path)


def _dump(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def free(base: Path, taken: Collection[Path] = ()) -> Path:
    """The path itself, or with the first number after it under which there is nothing yet, nor will be (``taken``)."""
    numbered = (base.with_name(f"{base.name}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([base], numbered) if not path.exists() and path not in taken)


def writable(path: Path, overwrite: bool, *suffixes: str) -> Path:
    """The path, if a file with one of these endings may be written there; no folder is made yet."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{path} must end in {' or '.join(suffixes)}, which says what to write")
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file")
    if path.exists() and not overwrite:
        raise UsageError(f"{path} is already there: choose another name, or add --overwrite")
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    if not nearest.is_dir():
        raise UsageError(f"{nearest} is a file, not a folder")
    if not os.access(nearest, os.W_OK):
        raise UsageError(f"nothing can be written to the folder {path.parent}")
    return path


def with_folder(path: Path) -> Path:
    """The path, whose folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
