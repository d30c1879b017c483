"""Samples of a run's model as a picture: images, videos with their frames in a row each, or points of a plane."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.data.transforms.forms import PICTURED, black_and_white

MOST_IN_A_PICTURE = 4096
"""Images beyond these are too small to be recognized, and a picture of them may fill the memory."""


def check_drawable(n: int, info: Mapping[str, Any]) -> None:
    """Refuse so many samples of the data of a run if they are more than a picture shows."""
    most = MOST_IN_A_PICTURE // (info["shape"][0] if info["kind"] == "videos" else 1)
    if n > most:
        raise UsageError(f"a picture shows at most {most:,} samples (got -n {n:,}); write more to a .csv file")


def draw_samples(drawn: Tensor, path: Path, title: str, info: Mapping[str, Any]) -> None:
    """Write samples, (n, features), of data that ``info`` describes as a picture."""
    from deepcanon.pictures import image_grid, save, scatter  # matplotlib is slow to import

    if info["kind"] in PICTURED:
        columns, shape = math.ceil(math.sqrt(len(drawn))), info["shape"]
        if info["kind"] == "videos":
            columns, *shape = shape
            drawn = drawn.reshape(len(drawn) * columns, -1)
        save(image_grid(drawn, shape, columns, limits=black_and_white(info["preprocessing"]), title=title), path)
    elif drawn.shape[1] == 2:
        save(scatter({"samples": drawn}, title), path)
    else:
        raise UsageError(f"samples of {drawn.shape[1]} values are not a picture; write them to a .csv file")
