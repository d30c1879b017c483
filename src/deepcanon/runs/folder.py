"""The folder of a run: what was trained on what and how, its log, checkpoints, weights and pictures."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor

from deepcanon.core import CheckpointError, Model, UsageError, describe
from deepcanon.core.files import as_json, seal, unseal, write_whole
from deepcanon.data import Dataset

FORMAT = 1
_PARTS = ("run.json", "log.jsonl", "checkpoints", "model.safetensors", "pictures")
_BEGINNING = ".beginning"
"""Marks a folder whose run is not complete enough to be resumed; what stands next to it may be replaced."""


class RunFolder:
    """The folder of a run; ``info`` is the content of its ``run.json``."""

    def __init__(self, folder: Path, info: dict[str, Any]) -> None:
        self.dir = folder
        self.info = info

    @staticmethod
    def claim(folder: Path, *, overwrite: bool) -> None:
        """Refuse a folder that holds a run, unless ``overwrite``, or files of someone else's under our names."""
        taken = [name for name in _PARTS if (folder / name).exists()]
        if not taken or (folder / _BEGINNING).exists():
            return
        if not overwrite:
            raise UsageError(
                f"{folder} already holds {taken[0]}: choose another folder, resume the run, or say --overwrite"
            )
        if not (folder / "run.json").exists():
            raise UsageError(
                f"{folder} holds {taken[0]} but no run.json, so it is not a run to overwrite: choose another"
            )

    def begin(self) -> None:
        """Make the folder ready for the first checkpoint; until ``commit`` a crash leaves nothing in the way."""
        try:
            (self.dir / _BEGINNING).touch()
            for path in (self.dir / name for name in _PARTS):
                if path.exists():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            (self.dir / "log.jsonl").touch()
        except OSError as error:
            raise UsageError(f"cannot write to the folder {self.dir}: {error.strerror}") from error

    def commit(self) -> None:
        """Say that there is a run here: from now on it can be resumed."""
        self.update()
        (self.dir / _BEGINNING).unlink()

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        folder = Path(folder)
        path = folder / "run.json"
        if not path.is_file():
            raise UsageError(f"{folder} is not a run: it has no run.json")
        info = unseal(path.read_bytes(), path)
        if info["format"] > FORMAT:
            raise UsageError(f"{folder} was written by a newer version of deepcanon (format {info['format']})")
        return cls(folder, info)

    @property
    def checkpoints(self) -> Path:
        return self.dir / "checkpoints"

    @property
    def weights(self) -> Path:
        return self.dir / "model.safetensors"

    @property
    def pictures(self) -> Path:
        return self.dir / "pictures"

    def update(self, **changes: Any) -> None:
        """Change what ``run.json`` says."""
        self.info.update(changes)
        write_whole(self.dir / "run.json", seal(self.info))

    def log(self) -> list[dict[str, Any]]:
        """The records of the log; a last line that a crash has cut is left out."""
        lines = (self.dir / "log.jsonl").read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines[:-1]]

    def append(self, records: list[dict[str, Any]], *, sync: bool = False) -> int:
        """Add records to the log; the length of the log in bytes."""
        try:
            with (self.dir / "log.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
                return file.tell()
        except OSError as error:
            raise CheckpointError(
                f"could not write the log of {self.dir}: {error.strerror}; its last checkpoint is intact"
            ) from error

    def cut_log(self, length: int) -> None:
        """Take back what was logged after a checkpoint; it will be logged again."""
        path = self.dir / "log.jsonl"
        whole = path.read_bytes()[:length].rpartition(b"\n")  # a line that a crash has cut goes, too
        os.truncate(path, len(whole[0]) + len(whole[1]))

    def differences(self, processes: int) -> list[str]:
        """What has changed since the run began and may change the last bits of the result, a sentence each."""
        before, now = self.info["environment"], environment(processes)
        names = {
            "torch": "the torch version",
            "threads": "the number of threads",
            "processes": "the number of processes",
        }
        return [
            f"{words} was {before[key]} and is {now[key]} now: the result may differ in its last bits"
            for key, words in names.items()
            if before[key] != now[key]
        ]

    def write_results(
        self,
        state: Mapping[str, Tensor],
        weights: str,
        steps: int,
        seconds: float,
        scores: Mapping[str, Any],
    ) -> None:
        """Write the final weights and what they reach; ``weights`` says which ones they are."""
        content = safetensors.torch.save({name: tensor.cpu().clone() for name, tensor in state.items()})
        write_whole(self.weights, content)
        results = {"steps": steps, "seconds": round(seconds, 3), **as_json(scores)}
        sha256 = hashlib.sha256(content).hexdigest()
        self.update(status="finished", weights=weights, results=results, sha256=sha256)

    def read_weights(self) -> dict[str, Tensor]:
        path = self.weights
        if "sha256" not in self.info or not path.is_file():
            status = self.info["status"]
            remedy = "train it again with other settings" if status == "diverged" else "resume it first"
            raise UsageError(f"{self.dir} has no final weights (it is {status}): {remedy}")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != self.info["sha256"]:
            raise CheckpointError(f"{path} is damaged: it does not match its checksum in run.json")
        return safetensors.torch.load(content)


def describe_run(model: Model[Any], data: Dataset[Any], settings: Mapping[str, Any], processes: int) -> dict[str, Any]:
    """What ``run.json`` holds from the start."""
    return {
        "format": FORMAT,
        "status": "running",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": describe(model),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "data": {
            "name": data.name,
            "kind": data.kind,
            "source": data.source,
            "target": data.target,
            "sizes": dict(data.sizes),
            "shape": list(data.shape),
            "labels": list(data.labels),
            "vocabulary": list(data.vocabulary),
            "target_vocabulary": list(data.target_vocabulary),
            "preprocessing": dict(data.preprocessing),
            "fingerprint": data.fingerprint(),
        },
        "settings": as_json(settings),
        "environment": environment(processes),
    }


def environment(processes: int) -> dict[str, Any]:
    """What, besides the settings, decides the last bits of a result."""
    return {
        "deepcanon": version("deepcanon"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "processes": processes,
    }
