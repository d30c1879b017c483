"""Where results go: folders that are free, files that are not overwritten unasked."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from deepcanon.core import UsageError


def folder_for(model: str, data: str, taken: bool = False) -> Path:
    """The folder of a run that was given none: ``runs/MODEL-DATA``, which only ``taken`` allows to be there already."""
    base = Path("runs") / f"{model}-{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(data).stem)}"
    return base if taken else free(base)


def free(base: Path) -> Path:
    """The path itself, or with the first number behind it under which there is nothing yet."""
    numbered = (base.with_name(f"{base.name}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([base], numbered) if not path.exists())


def writable(path: Path, overwrite: bool, *suffixes: str) -> Path:
    """The path, if a file of one of these kinds may be written there; its folder is made."""
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
