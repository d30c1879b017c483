"""A run opened to be looked into: its model, its examples by number, and what they look like in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Labeled, Model, UsageError
from deepcanon.core.plural import counted
from deepcanon.data import Dataset
from deepcanon.pictures.scene import Scene
from deepcanon.runs.run import Run
from deepcanon.runs.text import tokenizer

SPLITS = ("test", "valid", "train")
"""The splits of the data, those first from which a model has learned the least."""
OPEN = 4
"""So many runs stay in memory."""


@dataclass(frozen=True, eq=False)
class Look:
    """An open run."""

    run: Run

    @cached_property
    def model(self) -> Model[Any]:
        return self.run.model.eval()

    @cached_property
    def data(self) -> Dataset[Any]:
        return self.run.data

    @cached_property
    def scene(self) -> Scene:
        """The model with its held-out data, as the pictures of the run show them."""
        return Scene.of(self.model, self.data, self.run.info["settings"]["seed"])

    @property
    def splits(self) -> dict[str, int]:
        """The number of examples of each split."""
        found = {split: getattr(self.data, split) for split in SPLITS}
        return {split: len(rows) for split, rows in found.items() if rows is not None}

    def rows(self, split: str, numbers: list[int]) -> Any:
        """The examples of a split with these numbers, counted from 0."""
        known = self.splits
        if split not in known:
            raise UsageError(f"the splits of this run are {', '.join(known)}; got {split!r}")
        for number in numbers:
            if not 0 <= number < known[split]:
                raise UsageError(
                    f"{split} has {counted(known[split], 'example')}, numbered from 0 (got example {number})"
                )
        rows: AnyBatch = getattr(self.data, split)
        return rows.select(torch.tensor(numbers))

    @property
    def limits(self) -> tuple[float, float]:
        """The values that are shown as black and white."""
        return self.scene.limits

    def example(self, split: str, number: int) -> dict[str, Any]:
        """An example as it is shown, with its true class or value where it has one."""
        batch = self.rows(split, [number])
        shown = {"split": split, "number": number, "of": self.splits[split], **self.shown(batch.x)[0]}
        if isinstance(batch, Labeled):
            shown["true"] = self.label(batch.y[0])
        if not batch.x.is_floating_point() and self.data.vocabulary and batch.x.ndim == 2:
            end = int(getattr(batch, "lengths", torch.tensor([batch.x.shape[1]]))[0])
            shown |= {"kind": "text", "text": tokenizer(self.run.info["data"]).decode(batch.x[0, :end].tolist())}
        return shown

    def label(self, y: Tensor) -> Any:
        """A class by its name, a number as itself."""
        if y.numel() != 1 or y.is_floating_point():
            return y.flatten().tolist()
        return self.data.labels[int(y)] if int(y) < len(self.data.labels) else str(int(y))

    def shown(self, x: Tensor) -> list[dict[str, Any]]:
        """Examples, or what a decoder makes of a code, one for each row: images by gray or color values in [0, 1]."""
        rows = x.detach().cpu()
        if not (rows.is_floating_point() and rows.layout == torch.strided):
            return [{"kind": "other", "shape": list(row.shape)} for row in rows]
        if not self.scene.images:
            return [{"kind": "values", "values": row.flatten().tolist()} for row in rows.float()]
        low, high = self.limits
        height, width = self.data.shape[-2:]
        flat = rows.float().reshape(len(rows), -1, height, width)
        flat = flat if flat.shape[1] == 3 else flat.mean(1, keepdim=True)
        scaled = ((flat - low) / max(high - low, 1e-30)).clamp(0, 1).nan_to_num()
        return [
            {"kind": "image", "height": height, "width": width, "channels": len(each), "values": _short(each)}
            for each in scaled
        ]


def _short(values: Tensor) -> list[float]:
    """Values for pixels, of which a screen shows 256 levels."""
    return [round(value, 4) for value in values.flatten().tolist()]


def look_into(run: Path) -> Look:
    """The run opened; the same one again as long as its weights are the same."""
    weights = run / "model.safetensors"
    return _opened(run, weights.stat().st_mtime_ns if weights.is_file() else 0)


@lru_cache(OPEN)
def _opened(run: Path, stamp: int) -> Look:
    return Look(Run(run))
