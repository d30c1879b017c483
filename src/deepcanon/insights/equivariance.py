"""Equivariance of feature maps and invariance of the output, under shifts, flips, rotations and permutations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import AnyBatch, UsageError, eval_mode
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.layers import images_of
from deepcanon.insights.activation_maps import maps_of
from deepcanon.insights.receptive_field import Field, theoretical
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure

Transform = Callable[[Tensor], Tensor]
"""A transform of the pixels of images or the positions of feature maps, (..., height, width)."""

LEAST = 1e-8
"""Smaller errors are those of rounding and are drawn as this."""


def shifted(down: int, right: int) -> Transform:
    """A circular shift by so many pixels."""
    return lambda x: x.roll((down, right), (-2, -1))


def flipped(x: Tensor) -> Tensor:
    """A horizontal flip."""
    return x.flip(-1)


def rotated(x: Tensor) -> Tensor:
    """A rotation by 90 degrees."""
    return x.rot90(1, (-2, -1))


def permuted(order: Tensor) -> Transform:
    """A permutation of all pixels."""
    return lambda x: x.flatten(-2)[..., order.to(x.device)].view_as(x)


@torch.no_grad()
def equivariance_error(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    transform: Transform,
    after: Transform | None = None,
    inside: Tensor | None = None,
) -> float:
    r"""The equivariance error of ``f`` under the transform; 0 if they commute.

    .. math:: \frac{\lVert f(T x) - T' f(x) \rVert}{\lVert T' f(x) \rVert}

    ``after`` is the transform of the outputs of ``f`` if it is not the same, and ``inside`` a mask, (height, width), of
    those positions of the outputs that count.

    >>> equivariance_error(torch.relu, torch.randn(2, 1, 5, 5), shifted(1, 2))
    0.0
    """
    return _difference(f(transform(x)), (after or transform)(f(x)), inside)


@torch.no_grad()
def invariance_error(f: Callable[[Tensor], Tensor], x: Tensor, transform: Transform) -> float:
    r"""The invariance error of ``f`` under the transform: its relative change; 0 if it is invariant.

    .. math:: \frac{\lVert f(T x) - f(x) \rVert}{\lVert f(x) \rVert}

    >>> invariance_error(lambda x: x.amax((-2, -1)), torch.rand(2, 1, 5, 5), rotated)
    0.0
    """
    return _difference(f(transform(x)), f(x), None)


def _difference(found: Tensor, wanted: Tensor, inside: Tensor | None) -> float:
    if found.shape != wanted.shape:
        raise UsageError(f"the transform changes the shape of the output: {tuple(wanted.shape)}, {tuple(found.shape)}")
    if inside is not None:
        found, wanted = found[..., inside], wanted[..., inside]
    apart, length = float((found - wanted).double().norm()), float(wanted.double().norm())
    return apart / length if length > 0 else float(apart > 0)


def equivariance(model: nn.Module, batch: AnyBatch, *, seed: int = 0) -> Finding:
    r"""Errors of equivariance of each layer's feature maps and of invariance of the output, under moves of the image.

    .. math:: \text{equivariant: } f(T x) = T f(x), \qquad \text{invariant: } f(T x) = f(x)

    Measured are the relative distances of the two sides. A layer's feature map is measured under a shift of the image
    by its stride, at all positions and at those whose receptive field the border does not touch; under a flip, a
    rotation by 90 degrees, and a permutation of the pixels. The scores are measured under all of these and under shifts
    of any length.

    References:
        | Group equivariant convolutional networks (Cohen and Welling, 2016), https://arxiv.org/abs/1602.07576
        | Making convolutional networks shift-invariant again (Zhang, 2019), https://arxiv.org/abs/1904.11486

    Arguments:
        model: The network; its output are the scores of the classes.
        batch: Images.
        seed: The seed of the permutation of the pixels.
    """
    x, rest = images_of(batch), batch.inputs[1:]
    height, width = x.shape[2:]
    order = torch.randperm(height * width, generator=torch.Generator().manual_seed(seed))
    moves: dict[str, Transform] = {"flip": flipped, "permutation": permuted(order)}
    if height == width:
        moves["rotation"] = rotated

    def scores(given: Tensor) -> Tensor:
        with eval_mode(model), torch.random.fork_rng(devices=[]):
            output = model(given, *rest)
        if not isinstance(output, Tensor):
            raise UsageError(f"the model must give a tensor, got {type(output).__name__}")
        return output

    layers = _layers(model, x, rest, moves)
    before = scores(x)
    shifts = [_change(before, scores(shifted(0, pixels)(x)), pixels) for pixels in range(width // 2 + 1)]
    others = {name: _change(before, scores(move(x))) for name, move in sorted(moves.items())}
    numbers = {"examples": len(x), "layers": layers, "shifts": shifts, "transforms": others}
    return Finding(numbers, _figure(layers, shifts, others), _says(layers, shifts))


def _layers(model: nn.Module, x: Tensor, rest: Sequence[Any], moves: Mapping[str, Transform]) -> list[dict[str, Any]]:
    """For each layer with a feature map, its equivariance errors by the name of the transform."""
    try:
        maps = maps_of(model, (x, *rest))
    except UsageError:
        return []  # a network without feature maps has nothing that could move
    fields = theoretical(model, (x, *rest))
    moved = {name: maps_of(model, (move(x), *rest)) for name, move in moves.items()}
    shifts: dict[tuple[int, int], dict[str, Tensor]] = {}
    rows = []
    for name, found in maps.items():
        row: dict[str, Any] = {"layer": name, "size": list(found.shape[2:])}
        field = fields.get(name)
        step = _step(field, x.shape[2:], found.shape[2:])
        row["step"] = None if step is None else list(step)
        row["shift"] = row["shift inside"] = None
        if step is not None:
            if step not in shifts:
                shifts[step] = maps_of(model, (shifted(*step)(x), *rest))
            wanted = shifted(1, 1)(found)
            row["shift"] = _difference(shifts[step][name], wanted, None)
            inside = None if field is None else _inside(field, found.shape[2:])
            if inside is not None and inside.any():
                row["shift inside"] = _difference(shifts[step][name], wanted, inside.roll((1, 1), (0, 1)))
        for kind, transform in moves.items():
            fits = kind != "permutation" or found.shape[2:] == x.shape[2:]
            row[kind] = _difference(moved[kind][name], transform(found), None) if fits else None
        rows.append(row)
    return rows


def _step(field: Field | None, sides: Sequence[int], sizes: Sequence[int]) -> tuple[int, int] | None:
    """The shift of the image in pixels that shifts the feature map by one position; None if there is none."""
    if field is not None and all(window.axis is not None for window in field.footprint):
        steps = [window.step for window in field.footprint]
        return (int(steps[0]), int(steps[1])) if all(step.denominator == 1 for step in steps) else None
    if any(side % size for side, size in zip(sides, sizes, strict=True)):
        return None
    return sides[0] // sizes[0], sides[1] // sizes[1]


def _inside(field: Field, sizes: Sequence[int]) -> Tensor | None:
    """The positions whose receptive field no border touches, nor that of the next position, (height, width)."""
    if any(window.axis is None for window in field.footprint):
        return None
    free = []
    for window, size in zip(field.footprint, sizes, strict=True):
        whole = torch.tensor([window.at(position) == window.reached(position) for position in range(size + 1)])
        free.append(whole[:-1] & whole[1:])
    return free[0][:, None] & free[1]


def _change(before: Tensor, after: Tensor, pixels: int | None = None) -> dict[str, Any]:
    """The relative change of the scores, and the share of the images whose prediction is still the same."""
    kept = (_prediction(before) == _prediction(after)).double().mean()
    found = {"change": _difference(after, before, None), "kept": float(kept)}
    return found if pixels is None else {"pixels": pixels, **found}


def _prediction(scores: Tensor) -> Tensor:
    """The class of the largest score; of a single score, its sign."""
    return scores.argmax(-1) if scores.shape[-1] > 1 else scores.sign()


def _says(layers: Sequence[Mapping[str, Any]], shifts: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    known = {kind: [row[kind] for row in layers if row[kind] is not None] for kind in ("shift", "shift inside")}
    says = []
    if not layers:
        says.append("No layer has a feature map that could move with the image.")
    if known["shift inside"]:
        worst = max(known["shift inside"])
        how = f"up to a relative error of {worst:.0e}" if worst else "exactly"
        says.append(f"Away from the border, feature maps are equivariant to shifts {how}.")
    elif layers:
        says.append("The receptive field of every position of every feature map touches the border of the image.")
    if known["shift"]:
        says.append(f"Counting the border, the largest relative error is {max(known['shift']):.0%}.")
    far = shifts[-1]
    says.append(
        f"A shift by {counted(far['pixels'], 'pixel')} changes the scores by {far['change']:.0%} "
        f"and leaves {far['kept']:.0%} of the predictions as they were."
    )
    return tuple(says)


LINES = (
    ("shift inside", "shift by one position, away from the border", PALETTE[2], "o-"),
    ("shift", "shift by one position, everywhere", PALETTE[0], "o-"),
    ("flip", "flip", PALETTE[4], "s--"),
    ("rotation", "rotation by 90°", PALETTE[3], "^--"),
    ("permutation", "permutation of the pixels", PALETTE[1], "v--"),
)


def _figure(
    layers: Sequence[Mapping[str, Any]], shifts: Sequence[Mapping[str, Any]], others: Mapping[str, Mapping[str, Any]]
) -> Figure:
    last = shifts[-1]
    title = f"A shift by {counted(last['pixels'], 'pixel')} leaves {last['kept']:.0%} of the predictions as they were"
    inside = [row["shift inside"] for row in layers if row["shift inside"] is not None]
    if inside:
        how = f"up to {max(inside):.0e}" if max(inside) else "exactly"
        title = f"Away from the border feature maps are equivariant {how}; {title[0].lower()}{title[1:]}"
    figure = new_figure(12.0, 3.9, title)
    first, second, third = figure.subplots(1, 3, width_ratios=[1.5, 1.0, 0.8])
    _draw_layers(first, layers)
    _draw_shifts(second, shifts)
    _draw_others(third, others)
    return figure


def _draw_layers(axes: Axes, layers: Sequence[Mapping[str, Any]]) -> None:
    dress(axes, "Equivariance of feature maps", "layer", "equivariance error")
    if not layers:
        axes.text(0.5, 0.5, "there are no feature maps", ha="center", transform=axes.transAxes, fontsize=9, color=MUTED)
        return
    for key, label, color, style in LINES:
        known = [(i, max(row[key], LEAST)) for i, row in enumerate(layers) if row.get(key) is not None]
        if known:
            axes.plot(*zip(*known, strict=True), style, color=color, markersize=4, linewidth=1.4, label=label)
    axes.set_yscale("log")
    axes.set_ylim(LEAST / 2, 1e1)
    axes.axhspan(LEAST / 2, 1e-6, color=PALETTE[2], alpha=0.08, linewidth=0)
    axes.text(0.01, 1.4e-8, "rounding", fontsize=7, color=MUTED, transform=axes.get_yaxis_transform())
    few = len(layers) <= 6
    ticks = range(len(layers)) if few else [0, len(layers) - 1]
    axes.set_xticks(list(ticks), [layers[i]["layer"] for i in ticks])
    legend(axes)


def _draw_shifts(axes: Axes, shifts: Sequence[Mapping[str, Any]]) -> None:
    dress(axes, "Invariance of predictions", "shift to the right, in pixels", "share of predictions, relative change")
    pixels = [shift["pixels"] for shift in shifts]
    axes.plot(
        pixels, [shift["kept"] for shift in shifts], "o-", color=PALETTE[0], markersize=4, label="predictions kept"
    )
    axes.plot(
        pixels, [shift["change"] for shift in shifts], "s-", color=PALETTE[1], markersize=4, label="change of scores"
    )
    axes.set_ylim(bottom=0)
    legend(axes)


def _draw_others(axes: Axes, others: Mapping[str, Mapping[str, Any]]) -> None:
    dress(axes, "... under other transforms", "", "share of predictions kept")
    names = list(others)
    bars = axes.bar(names, [others[name]["kept"] for name in names], color=PALETTE[0], width=0.6)
    axes.bar_label(bars, [f"{others[name]['kept']:.0%}" for name in names], fontsize=8, color=INK, padding=2)
    axes.set_ylim(0, 1.1)
    axes.grid(visible=False, axis="x")
