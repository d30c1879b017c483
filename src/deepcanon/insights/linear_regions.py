"""Linear regions: the linear pieces into which a ReLU network divides its input space."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor, nn

from deepcanon.core import AnyBatch, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.regions import Line, Plane, most_regions, regions_on_line, regions_on_plane, widths
from deepcanon.pictures.style import INK, PALETTE, colors, dress, new_figure

DRAWN = 10
"""The largest number of outputs that are drawn."""

HEIGHTS = LinearSegmentedColormap.from_list("heights", [PALETTE[0], "#f2efe9", PALETTE[1]])


def linear_regions(model: nn.Module, batch: AnyBatch, *, margin: float = 0.2) -> Finding:
    r"""The number of linear regions into which a ReLU network divides its input space, with an upper bound.

    A ReLU network is linear wherever no unit changes its sign. On a line its joints, on a plane its regions are found
    exactly, layer by layer. With widths :math:`n_1, \dots, n_L` and d dimensions there are at most

    .. math:: \prod_{l=1}^{L} \sum_{j=0}^{d_l} \binom{n_l}{j}, \qquad d_l = \min(d, n_1, \dots, n_l)

    regions, which for one layer is Zaslavsky's number of regions of n hyperplanes in general position, n + 1 on a line,
    and for K layers of D units on a line is :math:`(D + 1)^K`. These are maxima: most networks, trained or not, stay
    far below them.

    The line goes from the first example to the second one that differs from it, the plane through these and a third;
    data of one or two features are shown whole. On the plane a region is that of one activation pattern; on the line
    pieces of the same slope are joined.

    References:
        | Facing up to arrangements (Zaslavsky, 1975), https://doi.org/10.1090/memo/0154
        | On the number of linear regions of deep neural networks (Montufar et al., 2014),
          https://arxiv.org/abs/1402.1869
        | Complexity of linear regions in deep networks (Hanin and Rolnick, 2019), https://arxiv.org/abs/1901.09021

    Arguments:
        model: A network of ReLUs (relu, leaky_relu, prelu) and linear layers.
        batch: The examples that span the line and the plane.
        margin: The margin of the window beyond the examples, as a fraction of their range.
    """
    x = _examples(batch)
    layers = widths(model, x)
    flat = x.flatten(1)
    features = flat.shape[1]
    if features == 1:
        low, high = flat.min(), flat.max()
        reach = margin * (high - low)
        ends = torch.stack([low - reach, high + reach]).reshape(2, *x.shape[1:])
        line = regions_on_line(model, ends[0], ends[1])
        numbers: dict[str, Any] = {"features": 1, "layers": layers, "line": _line_numbers(line, layers)}
        figure = new_figure(8, 4.2, _title(line.regions, "pieces on the line", most_regions(layers, 1)))
        at_knots = float(ends[0]) + line.knots * float(ends[1] - ends[0])
        _draw_line(figure.add_subplot(), line, at_knots, "x")
        return Finding(numbers, figure, (_say_line(line, layers),))
    corners = _three(flat)
    base = torch.stack([corners[1] - corners[0], corners[2] - corners[0]]).T
    frame = torch.eye(2, dtype=torch.float64) if features == 2 else _orthonormal(base)  # (features, 2)
    origin = torch.zeros(2, dtype=torch.float64) if features == 2 else corners[0]

    def at(coordinates: Tensor) -> Tensor:
        return (origin + coordinates @ frame.T).reshape(-1, *x.shape[1:])

    shown = flat if features == 2 else (corners - origin) @ frame  # where the examples lie on the plane
    low, high = shown.min(0).values, shown.max(0).values
    low, high = low - margin * (high - low), high + margin * (high - low)
    plane = regions_on_plane(model, at, (float(low[0]), float(high[0]), float(low[1]), float(high[1])))
    line = regions_on_line(model, *(corner.reshape(x.shape[1:]) for corner in corners[:2]))
    at_most = most_regions(layers, 2)
    numbers = {
        "features": features, "layers": layers, "line": _line_numbers(line, layers),
        "plane": {"regions": plane.regions, "at_most": at_most, "window": [*low.tolist(), *high.tolist()]},
    }  # fmt: skip
    figure = new_figure(10.4, 4.8, _title(plane.regions, "regions on this plane", at_most))
    left, right = figure.subplots(1, 2)
    _draw_plane(left, plane, shown, corners[:2] if features == 2 else (corners[:2] - origin) @ frame, features)
    _draw_line(right, line, line.knots, "the line from the first example, 0, to the second, 1")
    window = "the window around the data" if features == 2 else "a window on the plane through three examples"
    says = (
        f"On {window} the {sum(layers)} ReLUs have {plane.regions} linear regions; there are at most {at_most:,}.",
        _say_line(line, layers),
    )
    return Finding(numbers, figure, says)


def _examples(batch: AnyBatch) -> Tensor:
    if len(batch.inputs) != 1 or not isinstance(batch.x, Tensor) or not batch.x.is_floating_point():
        raise UsageError(f"linear regions are those of real inputs; these are {batch.noun}")
    return batch.x.detach().cpu().double()


def _three(flat: Tensor) -> Tensor:
    """The first three examples that do not lie on one line."""
    chosen = [flat[0]]
    for example in flat[1:]:
        ways = torch.stack([*chosen[1:], example]) - chosen[0]
        if int(torch.linalg.matrix_rank(ways)) == len(ways):
            chosen.append(example)
        if len(chosen) == 3:
            return torch.stack(chosen)
    raise UsageError("a plane needs three examples that do not lie on one line; give more examples")


def _orthonormal(base: Tensor) -> Tensor:
    """Two orthonormal columns: the first along the first of the base, the second to the side of its second."""
    q, r = torch.linalg.qr(base)
    columns: Tensor = q * r.diagonal().sign()
    return columns


def _line_numbers(line: Line, layers: list[int]) -> dict[str, Any]:
    return {
        "regions": line.regions,
        "patterns": line.patterns,
        "at_most": most_regions(layers, 1),
        "knots": line.knots.tolist(),
        "joints": line.joints.tolist(),
        "values": line.values.tolist(),
    }


def _title(found: int, what: str, at_most: int) -> str:
    return f"{found} linear {what}, of at most {at_most:,}"


def _say_line(line: Line, layers: list[int]) -> str:
    return (
        f"Along the line there are {counted(line.regions, 'linear piece')}; {len(layers)} "
        f"layer{'s' * (len(layers) > 1)} of {', '.join(map(str, layers))} units could have at most "
        f"{most_regions(layers, 1):,}."
    )


def _draw_plane(axes: Axes, plane: Plane, shown: Tensor, ends: Tensor, features: int) -> None:
    """Every region in the color of the first output in its middle, by rank, and in a shade of its own."""
    height = plane.values[:, 0].argsort().argsort().double() / max(1, plane.regions - 1)
    shade = np.random.default_rng(0).uniform(0.45, 0.85, size=(plane.regions, 1))
    color = 1 - shade * (1 - HEIGHTS(height.numpy())[:, :3])
    axes.add_collection(PolyCollection(plane.polygons, facecolors=color, edgecolors="white", linewidths=0.5))
    axes.scatter(shown[:, 0], shown[:, 1], s=7, color=INK, alpha=0.55, linewidths=0, zorder=3)
    axes.plot(ends[:, 0], ends[:, 1], color=INK, linewidth=1, linestyle="--", zorder=3)
    corners = np.concatenate(plane.polygons)
    axes.set_xlim(corners[:, 0].min(), corners[:, 0].max())
    axes.set_ylim(corners[:, 1].min(), corners[:, 1].max())
    names = ("feature 1", "feature 2") if features == 2 else ("along the line", "across it")
    dress(axes, "Regions: the first output low (blue) to high (orange)", *names, grid=False)


def _draw_line(axes: Axes, line: Line, x: Tensor, name: str) -> None:
    joints = torch.isin(line.knots, line.joints)
    for values, color in zip(line.values.T[:DRAWN], colors(DRAWN), strict=False):
        axes.plot(x, values, color=color, linewidth=1.4)
        axes.scatter(x[joints], values[joints], s=9, color=color, linewidths=0, zorder=3)
    which = "output" if line.values.shape[1] == 1 else f"outputs{' (first ten)' * (line.values.shape[1] > DRAWN)}"
    dress(axes, f"{counted(line.regions, 'linear piece')}; a dot is a joint", name, which)
