"""Receptive fields of units: the theoretical and the effective one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from deepcanon.core import AnyBatch, DataError, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.footprints import Footprints
from deepcanon.insights._engines.input_windows import Footprint
from deepcanon.insights._engines.layers import images_of, last_map, named, outputs_of, recorded
from deepcanon.pictures.style import INK, MUTED, PALETTE, SHADES, dress, legend, new_figure

EFFECTIVE = 0.0455
"""The effective receptive field are the pixels with a gradient above this share of the largest: two standard
deviations, as in Luo et al."""
PANELS = 4


@dataclass(frozen=True)
class Field:
    """The theoretical receptive field of the units of a layer, one entry per axis of the input."""

    footprint: Footprint

    @property
    def size(self) -> tuple[int, ...]:
        """The number of input positions in the field of a unit, also where they lie beyond the borders."""
        return tuple(window.size for window in self.footprint)

    @property
    def step(self) -> tuple[float, ...]:
        """The distance between the fields of neighboring units (the stride); zero where all units have the same."""
        return tuple(float(window.step) for window in self.footprint)

    @property
    def exact(self) -> bool:
        """Whether it is known exactly; else it is an upper bound."""
        return all(window.exact for window in self.footprint)

    def at(self, unit: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The first and last position along each axis of the field of this unit if there were no borders.

        ``unit`` has one number for each axis of the layer's output after the first two.
        """
        return tuple(window.at(0 if window.axis is None else unit[window.axis - 2]) for window in self.footprint)

    def reached(self, unit: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The first and last position along each axis of the field of this unit."""
        return tuple(window.reached(0 if window.axis is None else unit[window.axis - 2]) for window in self.footprint)


def theoretical(model: nn.Module, inputs: Sequence[Any]) -> dict[str, Field]:
    r"""The theoretical receptive field of every layer that depends on the input, in the order of the forward pass.

    .. math:: r_l = r_{l-1} + (k_l - 1)\, d_l\, j_{l-1}, \qquad j_l = j_{l-1}\, s_l

    Here k, s and d are a layer's kernel, stride and dilation, r the size of the field and j the step between
    neighboring units. Where branches meet, the field is the smallest interval that holds the fields of all of them.
    The field lies in the first of the inputs, (B, channels, positions ...); its values do not matter.
    """
    x = inputs[0]
    if not isinstance(x, Tensor) or x.ndim < 3:
        raise DataError("a receptive field lies in inputs with positions, (examples, channels, positions ...)")
    footprints = Footprints(x)
    with recorded(model) as outputs, footprints:
        model(*inputs)
    found = ((output.name, footprints.of(output.output)) for output in outputs)
    return {name: Field(footprint) for name, footprint in found if footprint is not None}


def effective(model: nn.Module, inputs: Sequence[Any], layers: Sequence[str]) -> dict[str, Tensor]:
    r"""The effective receptive field: the gradient of the middle unit of each of these layers in the input.

    .. math:: E_p = \frac1B \sum_b \sum_c \Bigl| \frac{\partial}{\partial x_{bcp}} \sum_k h_{bkm} \Bigr|

    Here m is the middle position of the layer's output h. The result has the spatial shape of the input.
    """
    x, *rest = inputs
    x = x.detach().clone().requires_grad_()
    with recorded(model) as outputs, torch.enable_grad():
        model(x, *rest)
        found = {}
        for layer in layers:
            output = named(outputs, layer).output
            middle = output.flatten(2)[..., _middle(output.shape[2:])]
            (slope,) = torch.autograd.grad(middle.sum(), x, retain_graph=True)
            found[layer] = slope.abs().sum(1).mean(0)
    return found


def _middle(sizes: Sequence[int]) -> int:
    """The flat index of the middle position."""
    number = 0
    for size in sizes:
        number = number * size + size // 2
    return number


def receptive_field(model: nn.Module, batch: AnyBatch, *, layer: str | None = None) -> Finding:
    r"""The theoretical and the effective receptive field of a unit of each layer, in pixels of the image.

    .. math:: r_l = r_{l-1} + (k_l - 1)\, d_l\, j_{l-1}, \qquad j_l = j_{l-1}\, s_l, \qquad
        E_p = \frac1B \sum_b \sum_c \Bigl| \frac{\partial}{\partial x_{bcp}} \sum_k h_{bkm} \Bigr|

    The theoretical field, of size r, is what can influence a unit at all, found from the kernels k, strides s and
    dilations d of all layers before it; where branches meet, the largest counts. The effective field is where the
    gradient E of the layer's middle units is above 4.55 % of the largest. In a random network it grows with the root of
    the depth only.

    References:
        | Understanding the effective receptive field in deep convolutional neural networks (Luo et al., 2016),
          https://arxiv.org/abs/1701.04128
        | Computing receptive fields of convolutional neural networks (Araujo et al., 2019),
          https://doi.org/10.23915/distill.00021

    Arguments:
        model: The network.
        batch: Images; the effective field is a mean over them.
        layer: The last layer to measure; by default that of the last convolution.
    """
    numbers, says = measured_fields(model, batch, layer)
    rows = numbers["layers"]
    slopes = {row["layer"]: torch.tensor(row["map"]) for row in rows}
    return Finding(numbers, _figure(rows, slopes, numbers["image"]), says)


def measured_fields(
    model: nn.Module, batch: AnyBatch, layer: str | None = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The numbers and the sentences of :func:`receptive_field`, without its figure, which takes longer than they do."""
    images = images_of(batch)
    one = batch.select(torch.zeros(1, dtype=torch.long, device=images.device))
    outputs = outputs_of(model, one.inputs)
    last = last_map(outputs) if layer is None else named(outputs, layer)
    if not last.is_map:
        raise UsageError(f"the output of the layer {last.name!r} is not a feature map; choose an earlier one")
    fields = theoretical(model, one.inputs)
    maps = {output.name: output.output.shape[2:] for output in outputs if output.is_map and output.name in fields}
    chosen = _growing(fields, maps, last.name)
    slopes = effective(model, batch.inputs, chosen)
    sides = tuple(images.shape[2:])
    rows = [_row(name, fields[name], maps[name], slopes[name], sides) for name in chosen]
    numbers = {"image": list(sides), "examples": len(images), "effective_above": EFFECTIVE, "layers": rows}
    deepest = rows[-1]
    says = (
        f"The receptive field of a unit of {deepest['layer']} is {_by(deepest['size'])} pixels ({deepest['status']}), "
        f"of which {deepest['inside']:.0%} lie in the image of {_by(sides)}.",
        f"Its effective receptive field is {counted(deepest['effective_pixels'], 'pixel')}, as many as a square of "
        f"side {deepest['effective_side']:.1f}, {deepest['effective_share']:.0%} of the field within the image.",
        f"Half of its gradient lies on {counted(deepest['half_pixels'], 'pixel')}.",
    )
    return numbers, says


def _growing(fields: Mapping[str, Field], maps: Mapping[str, Sequence[int]], last: str) -> list[str]:
    """The layers up to the last one with a feature map and a larger field than all before them."""
    chosen: list[str] = []
    for name in maps:
        if not chosen or prod(fields[name].size) > prod(fields[chosen[-1]].size):
            chosen.append(name)
        if name == last:
            break
    return [*(name for name in chosen if prod(fields[name].size) < prod(fields[last].size)), last]


def _row(name: str, field: Field, sizes: Sequence[int], slope: Tensor, sides: Sequence[int]) -> dict[str, Any]:
    unit = [size // 2 for size in sizes]
    window = field.at(unit)
    inside = field.reached(unit)
    visible = prod(max(0, high - low + 1) for low, high in inside)
    strong = slope > EFFECTIVE * slope.max().clamp_min(torch.finfo(slope.dtype).tiny)
    pixels = int(strong.sum())
    half = _holding_half(slope)
    beyond = slope.clone()
    beyond[tuple(slice(low, high + 1) for low, high in inside)] = 0
    return {
        "layer": name,
        "size": list(field.size),
        "step": list(field.step),
        "status": "EXACT" if field.exact else "UPPER BOUND",
        "unit": unit,
        "window": [list(bounds) for bounds in window],
        "inside": visible / prod(field.size),
        "effective_pixels": pixels,
        "effective_side": pixels ** (1 / len(sides)),
        "effective_share": pixels / max(1, visible),
        "half_pixels": half,
        "half_side": half ** (1 / len(sides)),
        "slope_outside": float(beyond.sum() / slope.sum().clamp_min(torch.finfo(slope.dtype).tiny)),
        "map": slope.tolist(),
    }


def _holding_half(slope: Tensor) -> int:
    """The least number of pixels that hold half of the gradient."""
    held = slope.flatten().double().sort(descending=True).values.cumsum(0)
    return int((held < held[-1] / 2).sum()) + 1


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _figure(rows: Sequence[Mapping[str, Any]], slopes: Mapping[str, Tensor], sides: Sequence[int]) -> Figure:
    shown = [rows[round(i * (len(rows) - 1) / max(1, PANELS - 1))] for i in range(min(PANELS, len(rows)))]
    last = rows[-1]
    title = (
        f"The receptive field of a unit of {last['layer']} is {_by(last['size'])} pixels; "
        f"half of its gradient lies on {last['half_pixels']} of them"
    )
    figure = new_figure(2.2 * len(shown) + 4.2, 3.3, title)
    grid = figure.add_gridspec(1, len(shown) + 1, width_ratios=[*[1.0] * len(shown), 1.7])
    for column, row in enumerate(shown):
        _draw_map(figure.add_subplot(grid[0, column]), row, slopes[row["layer"]], sides)
    _draw_growth(figure.add_subplot(grid[0, -1]), rows, sides)
    figure.supxlabel(
        "Shade: root of the gradient of the layer's middle unit. Box: its theoretical field. Frame: the image.",
        x=0.012, ha="left", fontsize=8, color=MUTED,
    )  # fmt: skip
    return figure


def _draw_map(axes: Axes, row: Mapping[str, Any], slope: Tensor, sides: Sequence[int]) -> None:
    share = slope / slope.max().clamp_min(torch.finfo(slope.dtype).tiny)
    axes.imshow(share.sqrt().cpu().numpy(), cmap=SHADES, vmin=0, vmax=1)
    (top, bottom), (left, right) = row["window"]
    box = Rectangle(
        (left - 0.5, top - 0.5), right - left + 1, bottom - top + 1, fill=False, color=PALETTE[1], linewidth=1.6
    )
    axes.add_patch(box)
    axes.add_patch(Rectangle((-0.5, -0.5), sides[1], sides[0], fill=False, color=MUTED, linewidth=0.8))
    dress(axes, grid=False)
    axes.set_title(row["layer"], loc="left", fontsize=9, fontweight="bold", color=INK)
    axes.set_xlabel(f"{_by(row['size'])}, effective {row['effective_pixels']}", fontsize=8, color=MUTED)
    axes.set_xticks([])
    axes.set_yticks([])
    around = [max(3, round(0.35 * side)) for side in sides]  # a field may be far larger than the image
    axes.set_xlim(max(min(left, 0), -around[1]) - 1, min(max(right, sides[1] - 1), sides[1] + around[1]) + 1)
    axes.set_ylim(min(max(bottom, sides[0] - 1), sides[0] + around[0]) + 1, max(min(top, 0), -around[0]) - 1)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_growth(axes: Axes, rows: Sequence[Mapping[str, Any]], sides: Sequence[int]) -> None:
    depth = range(1, len(rows) + 1)
    bound = any(row["status"] != "EXACT" for row in rows)
    axes.plot(
        depth, [prod(row["size"]) ** (1 / len(sides)) for row in rows], "s-", color=PALETTE[1], markersize=4,
        label="theoretical (upper bound)" if bound else "theoretical (exact)",
    )  # fmt: skip
    for key, style, label in (
        ("effective_side", "o-", f"effective (gradient above {EFFECTIVE:.1%} of the largest)"),
        ("half_side", "o--", "half of the gradient"),
    ):
        axes.plot(depth, [row[key] for row in rows], style, color=PALETTE[0], markersize=4, label=label)
    axes.axhline(prod(sides) ** (1 / len(sides)), color=MUTED, linewidth=0.8, linestyle=":", label="the image")
    dress(axes, "Side of the receptive field", "layer", "pixels")
    axes.set_ylim(0, 1.45 * axes.dataLim.ymax)  # with room for the legend
    names = [row["layer"] for row in rows]
    few = len(names) <= 8
    axes.set_xticks(list(depth) if few else [1, len(names)], names if few else [names[0], names[-1]])
    axes.tick_params(axis="x", labelrotation=30 if few else 0)
    legend(axes)
