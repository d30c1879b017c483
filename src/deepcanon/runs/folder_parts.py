"""The parts of a run's folder by name; no torch is imported here, so that anything but a run is refused at once."""

from __future__ import annotations

from pathlib import Path

from deepcanon.core.errors import UsageError

PARTS = ("run.json", "log.jsonl", "checkpoints", "model.safetensors", "pictures", "looks", "tensorboard", "wandb")
"""What a run consists of; ``looks`` holds what was found in it afterwards, the last two what was logged to a tool."""

BEGINNING = ".beginning"
"""Marks a folder whose run is not complete enough to be resumed; what stands next to it may be replaced."""


def info_of(folder: Path) -> Path:
    """The ``run.json`` of a run, or an error that says that this is none."""
    path = folder / "run.json"
    if not path.is_file():
        left = [name for name in PARTS if (folder / name).exists()]
        lost = f", though it holds {' and '.join(left)}: it was lost, or never finished" if left else ""
        raise UsageError(f"{folder} is not a run: it has no run.json{lost}")
    return path


def check_folder(folder: Path) -> None:
    """Refuse what is not a folder in which runs could be."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; 'deepcanon train' makes runs")
