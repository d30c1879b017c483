"""The folder of a run: what was trained on what and how, its log, checkpoints, weights and pictures."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor

from deepcanon.core import CheckpointError, Model, UsageError, describe, own_parts
from deepcanon.core.files import as_json, open_plain, refuse_links, seal, write_whole
from deepcanon.core.named_code import origin_of
from deepcanon.core.plural import counted
from deepcanon.core.stored import read_file
from deepcanon.data import Dataset
from deepcanon.runs.contents import read_info
from deepcanon.runs.folder_parts import BEGINNING, PARTS, info_of
from deepcanon.runs.log_lines import log_lines, read_lines, running_checksum
from deepcanon.runs.stored_tensors import bytes_of, check_tensors, floating_type, load_tensors

FORMAT = 1
_TAIL = 2**16
"""Bytes of the end of a log, in which its last line is."""


class RunFolder:
    """The folder of a run; ``info`` is the content of its ``run.json``."""

    def __init__(self, folder: Path, info: dict[str, Any]) -> None:
        self.dir = folder
        self.info = info
        self._running: int | None = None
        """The running checksum of the log; None where it is to be read from its last line."""

    @staticmethod
    def claim(folder: Path, *, overwrite: bool) -> None:
        """Refuse a folder that holds a run, unless ``overwrite``, or files of someone else's under our names."""
        taken = [name for name in PARTS if (folder / name).exists()]
        if not taken or (folder / BEGINNING).exists():
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
        self.refuse_links()
        try:
            os.close(open_plain(self.dir / BEGINNING, os.O_WRONLY))
            for path in (self.dir / name for name in PARTS):
                if path.exists():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            os.close(open_plain(self.dir / "log.jsonl", os.O_WRONLY))
        except OSError as error:
            raise UsageError(f"cannot write to the folder {self.dir}: {error.strerror}") from error

    def refuse_links(self) -> None:
        """Refuse a folder in which a part of the run is a symbolic link: what is written would be elsewhere."""
        refuse_links(*(self.dir / name for name in (*PARTS, BEGINNING)))

    def commit(self) -> None:
        """Say that there is a run here: from now on it can be resumed."""
        self.update()
        (self.dir / BEGINNING).unlink()

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        folder = Path(folder)
        return cls(folder, read_info(info_of(folder), FORMAT))

    @property
    def file(self) -> Path:
        return self.dir / "run.json"

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
        write_whole(self.file, seal(self.info))

    def log(self) -> list[dict[str, Any]]:
        """The records of the log; lines that are damaged are named on stderr and left out."""
        records, complaints = self.checked_log()
        sys.stderr.writelines(f"{complaint}\n" for complaint in complaints)
        return records

    def checked_log(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The records of the log, and what is wrong with it, a sentence each."""
        path = self.dir / "log.jsonl"
        raw = read_file(path, sys.maxsize)
        lines = raw.count(b"\n")
        records, complaints = read_lines(raw, path)
        end = self.info.get("log") if self.info.get("status") == "finished" else None
        if end is not None and end["lines"] > lines:
            complaints.append(f"{path} is damaged: {counted(end['lines'], 'line')} belong there, it has {lines}")
        elif end is not None and not complaints and end["running"] != running_checksum(raw):
            complaints.append(f"{path} is damaged: it is not the log that {self.file} was finished with")
        return records, complaints

    def append(self, records: list[dict[str, Any]], *, sync: bool = False) -> int:
        """Add records to the log; the length of the log in bytes."""
        path = self.dir / "log.jsonl"
        try:
            with open(open_plain(path, os.O_RDWR | os.O_APPEND), "r+b", buffering=0) as file:
                if self._running is None:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                    self._running = running_checksum(file.read())
                lines, self._running = log_lines(records, self._running)
                file.write(lines)
                if sync:
                    os.fsync(file.fileno())
                return os.fstat(file.fileno()).st_size
        except OSError as error:
            raise CheckpointError(
                f"could not write the log of {self.dir}: {error.strerror}; its last checkpoint is intact"
            ) from error

    def cut_log(self, length: int) -> str:
        """Take back what was logged after a checkpoint, which will be logged again; what the log has lost is said."""
        path = self.dir / "log.jsonl"
        with open(open_plain(path, os.O_RDWR), "r+b") as file:
            there = file.read(length)
            whole = there.rpartition(b"\n")  # a line that a crash has cut goes, too
            file.truncate(len(whole[0]) + len(whole[1]))
        self._running = None
        lost = length - len(there)
        return f"{path} is damaged: it has lost {lost:,} bytes of its end" if lost > 0 else ""

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

    def write_weights(self, state: Mapping[str, Tensor], weights: str, steps: int, seconds: float) -> None:
        """Write the final weights, from which the model can be loaded from now on; ``weights`` says which they are."""
        content = safetensors.torch.save({name: tensor.cpu().contiguous().clone() for name, tensor in state.items()})
        write_whole(self.weights, content)
        results = {"steps": steps, "seconds": round(seconds, 3), "train": {}, "valid": {}, "test": {}}
        self.update(weights=weights, results=results, sha256=hashlib.sha256(content).hexdigest())

    def write_results(self, scores: Mapping[str, Any]) -> None:
        """Write what the final weights reach."""
        self.update(results={**self.info["results"], **as_json(scores)})

    def finish(self) -> None:
        """Say that nothing is missing any more."""
        log = read_file(self.dir / "log.jsonl", sys.maxsize)
        self.update(status="finished", log={"lines": log.count(b"\n"), "running": running_checksum(log)})

    def read_weights(self, model: Model[Any] | None = None) -> dict[str, Tensor]:
        """The final weights, if they are whole and, where it is given, those of this model."""
        path = self.weights
        if "sha256" not in self.info or not path.is_file():
            status = self.info["status"]
            remedy = "train it again with other settings" if status == "diverged" else "resume it first"
            raise UsageError(f"{self.dir} has no final weights (it is {status}): {remedy}")
        expected = None if model is None else model.state_dict()
        content = read_file(path, sys.maxsize if expected is None else bytes_of(expected))
        if hashlib.sha256(content).hexdigest() != self.info["sha256"]:
            raise CheckpointError(f"{path} is damaged: it does not match its checksum in run.json")
        found = load_tensors(content, path)
        if expected is not None:
            check_tensors(expected, found, path)
        return found


def describe_run(model: Model[Any], data: Dataset[Any], settings: Mapping[str, Any], processes: int) -> dict[str, Any]:
    """What ``run.json`` holds from the start."""
    return {
        "format": FORMAT,
        "status": "running",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": describe(model),
        "classes": {
            name: origin_of(part if isinstance(part, type) else type(part)) for name, part in own_parts(model).items()
        },
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "dtype": floating_type(model.state_dict()),
        "data": {
            "name": data.name,
            "kind": data.kind,
            "source": data.source,
            "target": data.target,
            "reading": as_json(data.reading),
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
