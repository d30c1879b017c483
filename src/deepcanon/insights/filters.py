"""Classical filters of image processing: convolutions with fixed kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import AnyBatch, DataError, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.finding import Finding
from deepcanon.insights._engines.layers import images_of
from deepcanon.nn.convolution import BORDERS, Border, convolve
from deepcanon.pictures.style import INK, LINE, MUTED, footnote, new_figure

CHANGE = ("edges", "sobel_x", "sobel_y", "sobel")
"""The outputs that respond to change, on a scale of their own."""
CUT = 4.0
"""A Gaussian is cut off after so many standard deviations, as in scipy."""


def gaussian(sigma: float) -> Tensor:
    r"""The kernel :math:`\exp(-(i^2 + j^2) / 2 \sigma^2)`, cut off and scaled to the sum one."""
    if not sigma > 0:
        raise UsageError(f"sigma must be above zero (got {sigma})")
    radius = int(CUT * sigma + 0.5)
    pixels = torch.arange(-radius, radius + 1, dtype=torch.float64)
    line = torch.exp(-pixels.square() / (2 * sigma**2))
    line /= line.sum()
    return torch.outer(line, line)


def kernels(sigma: float = 1.0) -> dict[str, Tensor]:
    """The kernels by name, (height, width); ``sigma`` is the width of the Gaussian one.

    >>> kernels()["sharpen"] - kernels()["identity"] - kernels()["edges"]
    tensor([[0., 0., 0.],
            [0., 0., 0.],
            [0., 0., 0.]], dtype=torch.float64)
    """
    along = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=torch.float64)
    edges = torch.tensor([[0.0, -1, 0], [-1, 4, -1], [0, -1, 0]], dtype=torch.float64)
    identity = torch.zeros(3, 3, dtype=torch.float64)
    identity[1, 1] = 1.0
    return {
        "identity": identity,
        "box": torch.full((3, 3), 1 / 9, dtype=torch.float64),
        "mean": torch.full((5, 5), 1 / 25, dtype=torch.float64),
        "gaussian": gaussian(sigma),
        "sharpen": identity + edges,
        "edges": edges,
        "sobel_x": along,
        "sobel_y": along.T.contiguous(),
    }


def apply(x: Tensor, kernel: Tensor, border: Border = "reflect") -> Tensor:
    """Every channel of the images, (B, channels, height, width), correlated with the kernel; sizes stay as they are."""
    if border == "reflect" and min(x.shape[2:]) <= max(kernel.shape) // 2:
        raise DataError(
            f"images of {x.shape[2]}x{x.shape[3]} pixels are too small to be mirrored for a kernel of "
            f"{kernel.shape[0]}x{kernel.shape[1]}; take border='replicate'"
        )
    each = kernel.to(x).expand(x.shape[1], 1, *kernel.shape)
    return convolve(x, each, padding="same", border=border, groups=x.shape[1])


def filtered(x: Tensor, sigma: float = 1.0, border: Border = "reflect") -> dict[str, Tensor]:
    r"""The images under every filter by its name.

    Besides the kernels there is ``sobel``, the length :math:`\sqrt{(x \star S_x)^2 + (x \star S_y)^2}` of the gradient.
    """
    found = {name: apply(x, kernel, border) for name, kernel in kernels(sigma).items()}
    return {**found, "sobel": (found["sobel_x"].square() + found["sobel_y"].square()).sqrt()}


def filters(batch: AnyBatch, *, shown: int = 3, sigma: float = 1.0, border: Border = "reflect") -> Finding:
    r"""Images under the classical filters: identity, box, mean, Gaussian, sharpening, edges and Sobel's gradient.

    .. math:: y_{ij} = \sum_{mn} x_{i+m,\,j+n}\, K_{mn}

    A kernel that sums to one keeps the brightness of a plain surface, one that sums to zero responds to change only.

    References:
        | Digital image processing (Gonzalez and Woods), chapter 3

    Arguments:
        batch: Images.
        shown: How many of them to show.
        sigma: The standard deviation of the Gaussian, in pixels.
        border: The padding of the image: "reflect" its mirror image, "replicate" its last pixels, "circular" its other
            end, "zeros".
    """
    at_least(1, shown=shown)
    one_of(BORDERS, border=border)
    x = images_of(batch)[:shown].detach()
    found = filtered(x, sigma, border)
    own = kernels(sigma)
    numbers: dict[str, Any] = {
        "border": border,
        "sigma": sigma,
        "kernels": {name: kernel.tolist() for name, kernel in own.items()},
        "sums": {name: float(kernel.sum()) for name, kernel in own.items()},
        "mean_before": float(x.mean()),
        "means": {name: float(image.mean()) for name, image in found.items()},
        "roughness_before": roughness(x),
        "roughness": {name: roughness(image) for name, image in found.items()},
        "images": {name: image.tolist() for name, image in found.items()},
    }
    smoother, rougher = (numbers["roughness"][name] / max(roughness(x), 1e-30) for name in ("gaussian", "sharpen"))
    says = (
        "Identity, box, mean, Gaussian and sharpening sum to one and keep brightness; edges and Sobel sum to zero.",
        f"Neighboring pixels differ {smoother:.0%} as much after the Gaussian and {rougher:.0%} after sharpening.",
    )
    return Finding(numbers, _figure(x, found, own), says)


def roughness(x: Tensor) -> float:
    """The root mean square of the differences of adjacent pixels."""
    across, down = x.diff(dim=-1).square(), x.diff(dim=-2).square()
    count = across.numel() + down.numel()
    return math.sqrt(float(across.sum() + down.sum()) / count) if count else 0.0


def _figure(x: Tensor, found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Figure:
    lines, columns = len(x) + 1, len(found)
    title = "Kernels that sum to one keep brightness, kernels that sum to zero find edges"
    figure = new_figure(1.28 * columns + 0.3, 1.28 * lines + 1.0, title)
    grid = figure.subplots(lines, columns, squeeze=False)
    scale = (float(x.min()), float(x.max()))
    steepest = max(float(found[name].mean(1).abs().max()) for name in CHANGE) or 1.0
    for column, (name, images) in enumerate(found.items()):
        top = grid[0, column]
        top.set_title(name.replace("_", " "), fontsize=9, fontweight="bold", color=INK, pad=5)
        if name in own:
            _draw_kernel(top, own[name])
        else:
            top.text(0.5, 0.5, "length of\n(sobel x, sobel y)", ha="center", va="center", fontsize=8, color=MUTED)
            top.set_axis_off()
        for row, image in enumerate(images, start=1):
            _draw_image(grid[row, column], image, scale, steepest, name)
    for axes in grid.flat:
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(LINE)
    footnote(
        figure,
        "First row: the kernels, red above zero, blue below. One scale for all images, black is "
        f"{scale[0]:.3g} and white {scale[1]:.3g}; and one for all edges and gradients, from {-steepest:.3g} to "
        f"{steepest:.3g} in the same colors, white is zero.",
    )
    return figure


def _draw_kernel(axes: Axes, kernel: Tensor) -> None:
    largest = float(kernel.abs().max())
    axes.imshow(kernel.numpy(), cmap="RdBu_r", vmin=-1.6 * largest, vmax=1.6 * largest)
    if len(kernel) == 3:
        for (i, j), value in zip(torch.cartesian_prod(*[torch.arange(3)] * 2).tolist(), kernel.flatten(), strict=True):
            shown = "1/9" if abs(float(value) - 1 / 9) < 1e-9 else f"{float(value):g}"
            axes.text(j, i, shown, ha="center", va="center", fontsize=7.5, color=INK)
    else:
        size = "x".join(map(str, kernel.shape))
        axes.set_xlabel(f"{size}, largest {largest:.3f}", fontsize=7, color=MUTED, labelpad=2)


def _draw_image(axes: Axes, image: Tensor, scale: tuple[float, float], steepest: float, name: str) -> None:
    if name in CHANGE:
        axes.imshow(image.mean(0).cpu().numpy(), cmap="RdBu_r", vmin=-steepest, vmax=steepest)
        return
    low, high = scale
    scaled = ((image - low) / max(high - low, torch.finfo(image.dtype).tiny)).clamp(0, 1).cpu()
    axes.imshow(
        scaled.movedim(0, -1).numpy() if len(scaled) == 3 else scaled.mean(0).numpy(), cmap="gray", vmin=0, vmax=1
    )
