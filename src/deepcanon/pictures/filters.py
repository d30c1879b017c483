"""The filters of a convolution, and their feature maps on images."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.pictures.images import image_grid, rows

SIDE = 24
"""A filter of few pixels is drawn this large, so that the borders between filters stay thin."""

SHOWN = 8
TINY = torch.finfo(torch.float32).tiny


def filter_grid(filters: Tensor, title: str = "") -> Figure:
    """A grid of filters, (count, channels, height, width), all on the scale of the largest weight; zero is mid-gray."""
    larger = math.ceil(SIDE / max(filters.shape[-2:]))
    scaled = _stretched(filters.detach().cpu().float())
    scaled = scaled.repeat_interleave(larger, -2).repeat_interleave(larger, -1)
    return image_grid(scaled, scaled.shape[1:], min(8, len(filters)), limits=(-1, 1), title=title)


def responses(x: Tensor, filters: Tensor, title: str = "") -> Figure:
    """Images, (B, channels, height, width), and below them the rectified feature maps of the first filters.

    Each row of feature maps begins with its filter. All filters have one scale, and all maps. Images are padded with
    their border pixels (replicate), so that the border itself is not an edge to respond to.
    """
    x, filters = x.detach().cpu().float(), filters.detach().cpu().float()[:SHOWN]
    height, width = filters.shape[-2:]
    around = ((width - 1) // 2, width // 2, (height - 1) // 2, height // 2)
    # Less the mean, since a filter whose weights do not sum to zero would respond to plain brightness.
    maps = F.conv2d(F.pad(x - x.mean(), around, mode="replicate"), filters).clamp_min(0)  # (B, SHOWN, H, W)
    enlarged = F.interpolate((_stretched(filters) + 1) / 2, x.shape[-2:], mode="nearest")
    low, high = x.aminmax()
    shown = {"data": torch.cat([torch.ones(1, *x.shape[1:]), (x - low) / (high - low).clamp_min(TINY)])}
    for number, own in enumerate(enlarged):
        one = maps[:, number : number + 1] / maps.max().clamp_min(TINY)
        shown[f"filter {number + 1}"] = torch.cat([own.unsqueeze(0), one.expand(x.shape)])
    return rows(shown, x.shape[1:], len(x) + 1, title=title)


def _stretched(filters: Tensor) -> Tensor:
    return filters / filters.abs().max().clamp_min(TINY)
