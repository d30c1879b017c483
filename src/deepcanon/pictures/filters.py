"""The filters of a convolution, and where in images they find what they look for."""

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


def filter_grid(filters: Tensor, title: str = "") -> Figure:
    """Filters, (count, channels, height, width), each stretched to its own largest weight; zero is mid-grey."""
    larger = math.ceil(SIDE / max(filters.shape[-2:]))
    scaled = _stretched(filters.detach().cpu().float())
    scaled = scaled.repeat_interleave(larger, -2).repeat_interleave(larger, -1)
    return image_grid(scaled, scaled.shape[1:], min(8, len(filters)), limits=(-1, 1), title=title)


def responses(x: Tensor, filters: Tensor, title: str = "") -> Figure:
    """Images, (B, channels, height, width), and below them how strongly each of the first filters answers where."""
    x, filters = x.detach().cpu().float(), filters.detach().cpu().float()
    # Around the mean, since a filter whose weights do not sum to nothing would answer to plain brightness.
    answers = F.conv2d(x - x.mean(), filters[:SHOWN], padding="same").clamp_min(0)  # (B, SHOWN, height, width)
    low, high = x.aminmax()
    spread = (high - low).clamp_min(torch.finfo(x.dtype).tiny)
    shown = {"data": (x - low) / spread}
    for place in range(answers.shape[1]):
        one = answers[:, place : place + 1]
        shown[f"filter {place + 1}"] = (one / one.max().clamp_min(torch.finfo(x.dtype).tiny)).expand(x.shape)
    return rows(shown, x.shape[1:], title=title)


def _stretched(filters: Tensor) -> Tensor:
    return filters / filters.abs().amax((1, 2, 3), keepdim=True).clamp_min(torch.finfo(filters.dtype).tiny)
