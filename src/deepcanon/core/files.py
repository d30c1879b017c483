"""Atomic writes of files: to a temporary name, synced, renamed; and JSON with a checksum (seal)."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.core.errors import CheckpointError, UsageError


def write_whole(path: Path, content: bytes | str) -> None:
    """Write ``content`` so that after a crash the file holds either the old content or the new.

    What is not UTF-8 in a text, as names of files may be, is written as ``\\udcff``, which JSON reads as what it was.
    """
    temporary = path.with_name(f".writing-{path.name}-{os.getpid()}")
    try:
        write_synced(temporary, content.encode(errors="backslashreplace") if isinstance(content, str) else content)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(f"could not write {path}: {error.strerror}; what was there before is intact") from error


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


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
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
    try:
        content = json.loads(raw)
        content.pop("seal")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: it is not sealed JSON") from error
    if seal(content) != raw:
        raise CheckpointError(f"{path} is damaged: it does not match its own checksum")
    return content  # type: ignore[no-any-return]


def _dump(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def free(base: Path) -> Path:
    """The path itself, or with the first number after it under which there is nothing yet."""
    numbered = (base.with_name(f"{base.name}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([base], numbered) if not path.exists())


def writable(path: Path, overwrite: bool, *suffixes: str) -> Path:
    """The path, if a file with one of these endings may be written there; its folder is made."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{path} must end in {' or '.join(suffixes)}, which says what to write")
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file")
    if path.exists() and not overwrite:
        raise UsageError(f"{path} is already there: choose another name, or add --overwrite")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"nothing can be written to the folder {path.parent}")
    return path
