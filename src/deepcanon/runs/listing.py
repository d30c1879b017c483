"""A list of runs: what is in a folder, and what each run has reached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deepcanon.core.errors import DeepcanonError
from deepcanon.runs.folder_parts import BEGINNING, PARTS, check_folder

SIGNS = frozenset({*PARTS, BEGINNING}) - {"pictures"}
"""What shows that a folder is, or was, that of a run; pictures are anybody's."""


def list_runs(folder: Path | str = "runs") -> list[dict[str, Any]]:
    """One row for every run under ``folder``, by data, model and name; ``problem`` says what keeps one from being read.

    A folder that holds parts of a run and no ``run.json`` has a row, too: nobody should think that it was never there.
    """
    folder = Path(folder)
    check_folder(folder)
    rows = [_row(path) for path in _folders(folder)]
    return sorted(rows, key=lambda row: (row["data"], row["model"], str(row["run"])))


def _folders(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        if SIGNS & {*folders, *files}:
            yield Path(place)
            folders[:] = [name for name in folders if name not in PARTS]  # inside a checkpoint there is no run


def _row(folder: Path) -> dict[str, Any]:
    from deepcanon.runs.folder import RunFolder  # which imports torch: where there is no run, it is not needed

    try:
        info = RunFolder.open(folder).info
    except DeepcanonError as error:
        begun = (folder / BEGINNING).exists()
        problem = f"{folder} was broken off before its first checkpoint: train it again" if begun else str(error)
        return {
            "run": folder, "model": "", "data": "", "status": "broken off" if begun else "damaged", "problem": problem,
            "steps": None, "seconds": None, "train": {}, "valid": {}, "test": {},
        }  # fmt: skip
    results = info.get("results", {})
    return {
        "run": folder,
        "model": info["model"]["model"],
        "data": info["data"]["name"],
        "status": info["status"],
        "problem": None,
        "steps": results.get("steps"),
        "seconds": results.get("seconds"),
        **{part: results.get(part, {}) for part in ("train", "valid", "test")},
    }
