"""Heat maps (saliency, class activation) laid over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from matplotlib import colormaps
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.pictures.style import INK, LINE, footnote, new_figure

HEAT = colormaps["inferno"]
PALE = 0.45
"""The weight of the image where the map is at its largest."""


def heat_over(
    images: Tensor, maps: Mapping[str, Tensor], captions: Sequence[str] = (), title: str = "", note: str = ""
) -> Figure:
    """Images, (B, channels, height, width), in a first row, and below it a row for each named map, (B, h, w).

    Images of three channels are in color. Maps are enlarged to the images. Each is stretched to its own largest value;
    one without any is left pale, with the word "empty" on it.
    """
    if any(len(map_) != len(images) for map_ in maps.values()):
        raise UsageError("there must be one map for every image")
    images = images.detach().cpu().float()
    low, high = images.aminmax()
    scaled = (images - low) / (high - low).clamp_min(torch.finfo(torch.float32).tiny)
    shown = (scaled if images.shape[1] == 3 else scaled.mean(1, keepdim=True).expand(-1, 3, -1, -1)).movedim(1, -1)
    columns, side = len(images), 1.15
    figure = new_figure(side * columns + 1.4, side * (len(maps) + 1) + 0.75 + 0.25 * bool(note), title)
    grid = figure.subplots(len(maps) + 1, columns, squeeze=False)
    for column in range(columns):
        grid[0, column].imshow(shown[column].numpy())
        if captions:
            grid[0, column].set_title(captions[column], fontsize=7.5, color=INK, pad=4)
        for row, map_ in enumerate(maps.values(), start=1):
            axes, one = grid[row, column], map_[column].detach().cpu().float().clamp_min(0)
            largest = float(one.max())
            if largest > 0:
                axes.imshow(_overlay(shown[column], one / largest).numpy())
            else:
                axes.imshow(shown[column].numpy() * 0.5 + 0.5)
                axes.text(0.5, 0.5, "empty", ha="center", va="center", transform=axes.transAxes, fontsize=8, color=INK)
    for axes in grid.flat:
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(LINE)
    for row, name in enumerate(["image", *maps]):
        grid[row, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9, color=INK, labelpad=8)
    if note:
        footnote(figure, note)
    return figure


def _overlay(image: Tensor, share: Tensor) -> Tensor:
    """The image, (height, width, 3), with the colors of heat laid over it."""
    larger = F.interpolate(share[None, None], image.shape[:2], mode="bilinear", align_corners=False)[0, 0]
    color = torch.from_numpy(HEAT(larger.numpy())[..., :3]).float()
    return PALE * image + (1 - PALE) * color
