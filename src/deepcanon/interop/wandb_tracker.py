"""Weights & Biases (wandb) and trackio, which has the same interface."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.interop.trackers import Logged, Tracker


class Wandb(Tracker):
    """An observer that logs a training to wandb, offline: ``wandb sync`` sends it, if and when one wants to.

    The files lie in the folder ``wandb`` inside that of the run. What wandb has written offline cannot be gone on with,
    so that a run that is resumed writes its whole log once more: the newest of its folders is complete. ``WANDB_MODE``
    may ask for something else than offline.
    """

    package, extra = "wandb", "deepcanon[wandb]"

    def __init__(self, project: str = "deepcanon") -> None:
        super().__init__()
        self.project = project
        self._run: Any = None

    def _open(self, name: str, identity: str, about: Mapping[str, Any], folder: Path | None) -> Logged:
        import wandb

        self._run = wandb.init(
            project=self.project, name=name, id=identity, config=dict(about), resume="allow", reinit="create_new",
            dir=None if folder is None else str(folder), mode=os.environ.get("WANDB_MODE", "offline"),
            settings=wandb.Settings(silent=True, console="off", disable_git=True, save_code=False),
        )  # fmt: skip
        return set()

    def _write(self, values: Mapping[str, float], step: int, seconds: float) -> None:
        self._run.log({**values, "_timestamp": seconds}, step=step)

    def _close(self, *, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


class Trackio(Tracker):
    """An observer that logs a training to trackio's own store on this machine: ``trackio show`` opens it."""

    package, extra = "trackio", "trackio"

    def __init__(self, project: str = "deepcanon") -> None:
        super().__init__()
        self.project = project
        self._run: Any = None

    def _open(self, name: str, identity: str, about: Mapping[str, Any], folder: Path | None) -> Logged:
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        there = SQLiteStorage.get_logs(self.project, name)
        self._run = trackio.init(
            self.project, name=name, config=dict(about), resume="allow", embed=False, auto_log_gpu=False,
            auto_log_cpu=False,
        )  # fmt: skip
        return {(key, row["step"]) for row in there for key in row if key not in ("step", "timestamp")}

    def _write(self, values: Mapping[str, float], step: int, seconds: float) -> None:
        self._run.log(dict(values), step=step)

    def _close(self, *, finished: bool) -> None:
        self._run.finish()
