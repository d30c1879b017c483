"""TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.core import UsageError
from deepcanon.interop.trackers import Logged, Tracker


class TensorBoard(Tracker):
    """An observer that logs a training to event files of TensorBoard: ``tensorboard --logdir runs`` shows all runs.

    They are written to ``folder``, by default the folder ``tensorboard`` inside that of the run. A run that is resumed
    writes its whole log once more and takes back what was written before, since a process that was killed may have
    left any part of it behind.
    """

    package, extra = "tensorboard", "deepcanon[tensorboard]"

    def __init__(self, folder: str | Path | None = None) -> None:
        super().__init__()
        self.folder = folder
        self._writer: Any = None

    def _open(self, name: str, identity: str, about: Mapping[str, Any], folder: Path | None) -> Logged:
        from torch.utils.tensorboard import SummaryWriter

        if self.folder is None and folder is None:
            raise UsageError("TensorBoard needs a folder to write to: give one, or give out= to the training")
        there = Path(self.folder) if self.folder is not None else Path(str(folder)) / "tensorboard"
        self._writer = SummaryWriter(str(there), purge_step=0)
        self._writer.add_text("run", f"```\n{json.dumps(dict(about), indent=1)}\n```", 0)
        return set()

    def _write(self, values: Mapping[str, float], step: int, seconds: float) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step, walltime=seconds)

    def _close(self, *, finished: bool) -> None:
        self._writer.close()
