"""Pictures of videos: the frames of each in a row, from data, samples and continuations."""

from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import Videos
from deepcanon.core.padding import valid_positions
from deepcanon.core.roles import Forecasts, Samples
from deepcanon.pictures.images import UNIT, Limits, image_grids, rows
from deepcanon.pictures.scene import Scene

SHOWN = 8
CONTINUED, PATHS = 4, 2
"""The number of videos that are continued, and how often each is."""


def filmed(scene: Scene) -> dict[str, Figure]:
    """Videos of the data next to sampled ones, a row for each."""
    model, batch = scene.model, scene.some(SHOWN)
    if not isinstance(model, Samples) or not isinstance(batch, Videos):
        return {}
    samples = scene.drawn(SHOWN)
    frames = batch.x.shape[1]
    shown = Videos(samples, torch.full((len(samples),), samples.shape[1], device=samples.device))
    groups = {f"data ({scene.split})": film(batch, frames), "samples": film(shown, frames)}
    title = f"{model.name()} on {scene.data.name}: the frames of a video in a row"
    return {"samples": image_grids(groups, scene.data.shape[-3:], frames, limits=scene.limits, title=title)}


def continued(scene: Scene) -> dict[str, Figure]:
    """Videos of the data, and what a model draws to follow on their first half."""
    model, batch = scene.model, scene.some(CONTINUED)
    if not isinstance(model, Forecasts) or not isinstance(batch, Videos) or int(batch.lengths.max()) < 2:
        return {}
    steps = int((batch.lengths - batch.origins).max())
    paths = model.forecast(batch.past, steps, samples=PATHS, generator=scene.generator())
    title = f"{model.name()} on {scene.data.name}: {scene.split} videos, continued from the middle"
    return {"forecasts": continuations(paths, batch, title, scene.limits)}


def continuations(paths: Tensor, videos: Videos, title: str = "", limits: Limits = UNIT) -> Figure:
    """The frames of each video in a row, and below it some sample paths of what may follow on its first half.

    ``paths`` are (samples, B, steps, channels, height, width).
    """
    longest = max(int(videos.lengths.max()), int(videos.origins.max()) + paths.shape[2])
    gallery: dict[str, Tensor] = {}
    for number in range(len(videos)):
        gallery[f"video {number + 1}"] = film(videos.select(torch.tensor([number], device=videos.device)), longest)
        for path, drawn in enumerate(paths[:PATHS, number], start=1):
            given = int(videos.origins[number])
            left, right = (
                drawn.new_full((count, *drawn.shape[1:]), math.nan) for count in (given, longest - given - len(drawn))
            )
            gallery[f"path {number + 1}.{path}"] = torch.cat([left, drawn, right])
    captions = [f"frame {frame + 1}" for frame in range(longest)]
    return rows(gallery, videos.x.shape[2:], longest, captions=captions, limits=limits, title=title)


def film(videos: Videos, frames: int) -> Tensor:
    """All frames one after the other, ``frames`` of each video; what is not there is NaN, which is not drawn."""
    inside = valid_positions(videos.x, videos.lengths)[..., None, None, None]
    x = videos.x.masked_fill(~inside, math.nan)[:, :frames]
    missing = x.new_full((len(x), frames - x.shape[1], *x.shape[2:]), math.nan)
    return torch.cat([x, missing], 1).flatten(0, 1)
