"""A list of runs: what is in a folder, and what each run has reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepcanon.core import DeepcanonError, UsageError
from deepcanon.runs.folder import RunFolder


def list_runs(folder: Path | str = "runs") -> list[dict[str, Any]]:
    """One row for every run under ``folder``, by data, model and name."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; 'deepcanon train' makes runs")
    rows = [_row(path.parent) for path in folder.rglob("run.json")]
    return sorted(rows, key=lambda row: (row["data"], row["model"], str(row["run"])))


def _row(folder: Path) -> dict[str, Any]:
    try:
        info = RunFolder.open(folder).info
    except DeepcanonError:
        return {
            "run": folder, "model": "", "data": "", "status": "damaged", "steps": None, "seconds": None,
            "train": {}, "valid": {}, "test": {},
        }  # fmt: skip
    results = info.get("results", {})
    return {
        "run": folder,
        "model": info["model"]["model"],
        "data": info["data"]["name"],
        "status": info["status"],
        "steps": results.get("steps"),
        "seconds": results.get("seconds"),
        **{part: results.get(part, {}) for part in ("train", "valid", "test")},
    }
