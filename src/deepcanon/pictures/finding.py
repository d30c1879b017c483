"""What an insight or a study gives back: numbers, the figure that shows them, and what they say in words."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from deepcanon.pictures.style import save


@dataclass(frozen=True)
class Finding:
    """What was found."""

    numbers: Mapping[str, Any]
    """The numbers by name, in JSON's own types: all that the figure shows, and all that the sentences claim."""
    figure: Figure
    says: tuple[str, ...]
    """What the numbers mean, a plain sentence each, for the one who reads the terminal."""

    def save(self, folder: Path | str, name: str) -> list[Path]:
        """Write ``NAME.png`` and ``NAME.json`` into the folder, each whole or not at all; the figure is emptied."""
        picture = save(self.figure, Path(folder) / f"{name}.png")
        table = picture.with_suffix(".json")
        beside = table.with_name(f".{table.name}.{os.getpid()}.part")
        try:
            beside.write_text(json.dumps(_finite(self.numbers), indent=1, allow_nan=False) + "\n", encoding="utf-8")
            os.replace(beside, table)
        finally:
            beside.unlink(missing_ok=True)
        return [picture, table]


def _finite(value: Any) -> Any:
    """The value with null for what JSON has no word for, NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
