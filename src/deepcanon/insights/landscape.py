"""Loss landscapes: the loss along lines and over planes through the weights of a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn

from deepcanon.core import AnyBatch, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.objective import Mode, Objective
from deepcanon.pictures.style import INK, PALETTE, dress, legend, new_figure
from deepcanon.pictures.surfaces import contours

State = Mapping[str, Tensor]
"""Weights by name."""

Scale = Literal["filter", "weight", "none"]

MARGIN = 0.3
"""The margin of a plane around its trajectory, as a fraction of its extent."""


def landscape(
    model: nn.Module,
    batch: AnyBatch,
    checkpoints: Sequence[State],
    *,
    points: int = 25,
    reach: float = 1.0,
    scale: Scale = "filter",
    mode: Mode = "eval",
    seed: int = 0,
) -> Finding:
    r"""The loss landscape around a model, and the trajectory of its training in it.

    A slice shows the loss over a line or a plane through the weights,

    .. math:: f(\alpha, \beta) = L(\theta + \alpha a + \beta b).

    The plane of the trajectory is spanned by the two principal components of the differences between the checkpoints
    and the model, so that up to two checkpoints besides the model lie in it, and more nearly do. The random plane has
    directions drawn from a Gaussian and scaled filter by filter to the length of the model's own filters,
    :math:`a_i \leftarrow a_i \lVert\theta_i\rVert / \lVert a_i\rVert`, with biases and normalizations left alone:
    without that a network of large weights looks flatter than the same function with small ones. So the slice stays the
    same when a layer before a ReLU is multiplied by a number and the next one divided by it, or, before a batch
    normalization, any filter. If each unit has its own number, only the scale "weight" is left unchanged.

    References:
        | Qualitatively characterizing neural network optimization problems (Goodfellow et al., 2015),
          https://arxiv.org/abs/1412.6544
        | Visualizing the loss landscape of neural nets (Li et al., 2018), https://arxiv.org/abs/1712.09913

    Arguments:
        model: The model.
        batch: The examples over which the loss is the mean.
        checkpoints: The weights saved during training, oldest first.
        points: How many points a slice has along each direction.
        reach: How far the random plane goes, in lengths of the filters.
        scale: How random directions are scaled: to the length of each "filter", to the size of each "weight", or not
            at all, "none".
        mode: "eval", dropout and batch normalization in evaluation mode, or "train", in training mode.
        seed: The seed of the random directions.
    """
    at_least(3, points=points)
    loss = Objective(model, batch, mode, seed)
    states = _trajectory(loss, checkpoints)
    random = [random_direction(loss.parameters, seed + i, scale) for i in (0, 1)]
    steps = [reach * (2 * i / (points - 1) - 1) for i in range(points)]
    around = over_plane(loss, loss.state, random[0], random[1], steps, steps)
    numbers: dict[str, Any] = {
        "loss": _value(loss, loss.state),
        "random": {"steps": steps, "losses": around, "scale": scale},
        "rise": _mean_rim(around) - _value(loss, loss.state),
    }
    if len(states) > 1:
        plane = trajectory_plane(states, loss.parameters, random[0])
        x, y = _window(plane.coordinates, points)
        truth = [_value(loss, state) for state in states]
        numbers |= {
            "path": _along_path(loss, states, points),
            "checkpoint_losses": truth,
            "plane": {
                "x": x,
                "y": y,
                "losses": over_plane(loss, states[-1], plane.first, plane.second, x, y),
                "coordinates": [list(point) for point in plane.coordinates],
                "losses_at_coordinates": [_value(loss, plane.at(point)) for point in plane.coordinates],
                "share": plane.share,
            },
        }
    return Finding(numbers, _figure(numbers), _sentences(numbers))


def random_direction(weights: State, seed: int = 0, scale: Scale = "filter") -> dict[str, Tensor]:
    """A random Gaussian direction in the space of these weights, normalized to them.

    A filter is a row of a matrix or an output channel of a convolution. With the scale "filter" (filter normalization),
    the direction is 0 for biases and the factors of a normalization.

    >>> weights = {"weight": torch.tensor([[3.0, 4.0], [0.3, 0.4]]), "bias": torch.ones(2)}
    >>> direction = random_direction(weights)
    >>> direction["weight"].norm(dim=1), direction["bias"]
    (tensor([5.0000, 0.5000]), tensor([0., 0.]))
    """
    one_of(("filter", "weight", "none"), scale=scale)
    generator = Generator().manual_seed(seed)
    direction = {}
    for name, weight in weights.items():
        drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight)
        if scale == "weight":
            drawn = drawn * weight.abs()
        elif scale == "filter":
            drawn = _as_long_as(drawn, weight) if weight.ndim > 1 else torch.zeros_like(weight)
        direction[name] = drawn
    return direction


def over_line(loss: Objective, origin: State, direction: State, steps: Sequence[float]) -> list[float]:
    """The loss at ``origin + step * direction`` for each step."""
    return [_value(loss, _moved(origin, (step, direction))) for step in steps]


def over_plane(
    loss: Objective, origin: State, first: State, second: State, x: Sequence[float], y: Sequence[float]
) -> list[list[float]]:
    """The loss at ``origin + x * first + y * second``, by rows of equal y."""
    return [[_value(loss, _moved(origin, (a, first), (b, second))) for a in x] for b in y]


def between(loss: Objective, start: State, end: State, shares: Sequence[float]) -> list[float]:
    """The loss by linear interpolation between two states, at these fractions; 0 and 1 are the states."""
    return [
        _value(loss, {name: (1 - share) * start[name] + share * end[name] for name in start.keys() & end.keys()})
        for share in shares
    ]


@dataclass(frozen=True)
class Plane:
    """The plane in which most of a trajectory lies: through its end, along two directions of length 1."""

    origin: State
    first: State
    second: State
    coordinates: tuple[tuple[float, float], ...]
    """The projections of the checkpoints onto the plane."""
    share: float
    """The fraction of the squared distances to the end that lies within the plane."""

    def at(self, point: tuple[float, float]) -> dict[str, Tensor]:
        """The state at this point of the plane."""
        return _moved(self.origin, (point[0], self.first), (point[1], self.second))


def trajectory_plane(checkpoints: Sequence[State], metric: State, spare: State | None = None) -> Plane:
    """The plane through the last checkpoint along the two principal components of the differences to it.

    Distances are those of the weights that ``metric`` names; other entries, such as running statistics, move along.
    Where all checkpoints lie on one line, the second direction is the part of ``spare`` orthogonal to it.
    """
    if len(checkpoints) < 2:
        raise UsageError("a trajectory has at least two different checkpoints")
    end = checkpoints[-1]
    gone = [{name: checkpoint[name] - end[name] for name in end} for checkpoint in checkpoints[:-1]]
    rows = torch.stack([torch.cat([step[name].flatten() for name in metric]) for step in gone])
    left, lengths, _ = torch.linalg.svd(rows, full_matrices=False)
    if float(lengths[0]) == 0:
        raise UsageError("all checkpoints of the trajectory are the same")
    count = 2 if len(lengths) > 1 and float(lengths[1]) > 1e-9 * float(lengths[0]) else 1
    mix = left[:, :count] / lengths[:count]
    mix = mix * torch.where(rows[0] @ (rows.T @ mix) < 0, -1.0, 1.0)  # a component has no sign: training starts right
    directions = [{name: _mixed([step[name] for step in gone], column) for name in end} for column in mix.T]
    inside = rows @ rows.T @ mix
    if count == 1:
        directions.append(_across(directions[0], spare or random_direction(metric), metric))
        inside = torch.cat([inside, torch.zeros_like(inside)], 1)
    coordinates = [(float(a), float(b)) for a, b in inside.tolist()]
    share = float(inside.square().sum() / rows.square().sum())
    return Plane(end, directions[0], directions[1], (*coordinates, (0.0, 0.0)), share)


def _trajectory(loss: Objective, checkpoints: Sequence[State]) -> list[dict[str, Tensor]]:
    """The states of the trajectory, the model's own last; where two in a row are the same, one of them."""
    states: list[dict[str, Tensor]] = []
    for state in [*checkpoints, loss.state]:
        missing = [name for name, own in loss.state.items() if name not in state or state[name].shape != own.shape]
        if missing and state is not loss.state:
            kept = [name for name in missing if name in state]
            fault = "of another shape" if kept else "missing"
            raise UsageError(f"the checkpoints are of another model: {missing[0]} is {fault}")
        cast = {name: state[name].to(own) for name, own in loss.state.items()}
        if not states or any(not torch.equal(cast[name], states[-1][name]) for name in loss.parameters):
            states.append(cast)
    return states


def _along_path(loss: Objective, checkpoints: Sequence[State], points: int) -> dict[str, Any]:
    """The loss by linear interpolation from checkpoint to checkpoint, over the length of the path."""
    shares = [i / (points - 1) for i in range(points)]
    distances, losses, marks, way = [], [], [0.0], 0.0
    barrier = 0.0
    for start, end in pairwise(checkpoints):
        length = math.sqrt(sum(float((end[name] - start[name]).square().sum()) for name in loss.parameters))
        piece = between(loss, start, end, shares)
        distances += [way + share * length for share in shares]
        losses += piece
        straight = [(1 - share) * piece[0] + share * piece[-1] for share in shares]
        barrier = max([barrier, *(height - line for height, line in zip(piece, straight, strict=True))])
        way += length
        marks.append(way)
    return {"distance": distances, "losses": losses, "checkpoints": marks, "barrier": barrier}


@torch.no_grad()
def _value(loss: Objective, state: State) -> float:
    return float(loss.at(state))


def _moved(origin: State, *moves: tuple[float, State]) -> dict[str, Tensor]:
    state = dict(origin)
    for step, direction in moves:
        for name, change in direction.items():
            state[name] = state[name] + step * change
    return state


def _as_long_as(drawn: Tensor, weight: Tensor) -> Tensor:
    """The direction with each of its filters as long as the weight's."""
    lengths = [tensor.flatten(1).norm(dim=1).clamp_min(1e-30) for tensor in (weight, drawn)]
    factor: Tensor = lengths[0] / lengths[1]
    return drawn * factor.view(-1, *[1] * (weight.ndim - 1))


def _mixed(tensors: Sequence[Tensor], shares: Tensor) -> Tensor:
    mixed: Tensor = torch.tensordot(shares, torch.stack(list(tensors)), 1)
    return mixed


def _across(along: State, spare: State, metric: State) -> dict[str, Tensor]:
    """The part of a direction that is orthogonal to another one, of length 1."""
    overlap = sum(float((spare[name] * along[name]).sum()) for name in metric)
    upright = {name: spare[name] - overlap * along[name] for name in metric}
    length = math.sqrt(sum(float(part.square().sum()) for part in upright.values()))
    return {name: part / length for name, part in upright.items()}


def _window(coordinates: Sequence[tuple[float, float]], points: int) -> list[list[float]]:
    """The steps along both directions; across a straight line it is half as far as along it."""
    ends = [(min(axis), max(axis)) for axis in zip(*coordinates, strict=True)]
    (low, high), (bottom, top) = ends
    if top - bottom < 1e-6 * (high - low):
        ends[1] = ((low - high) / 4, (high - low) / 4)
    margins = [MARGIN * (end - start) for start, end in ends]
    return [
        [start - margin + (end - start + 2 * margin) * i / (points - 1) for i in range(points)]
        for (start, end), margin in zip(ends, margins, strict=True)
    ]


def _mean_rim(losses: Sequence[Sequence[float]]) -> float:
    rim = [*losses[0], *losses[-1], *(row[0] for row in losses[1:-1]), *(row[-1] for row in losses[1:-1])]
    return sum(rim) / len(rim)


def _figure(numbers: dict[str, Any]) -> Figure:
    followed = "path" in numbers
    title = "The loss along the trajectory of training and around its end" if followed else "The loss around a model"
    figure = new_figure(13.2 if followed else 9, 4.4, title)
    panels = figure.subplots(1, 3 if followed else 2)
    around = numbers["random"]
    middle = len(around["steps"]) // 2
    if followed:
        _draw_path(panels[0], numbers)
        _draw_trajectory(panels[1], numbers)
    else:
        panels[0].plot(around["steps"], around["losses"][middle], color=PALETTE[0], label="first direction")
        panels[0].plot(around["steps"], [row[middle] for row in around["losses"]], color=PALETTE[1], label="second")
        dress(panels[0], "Two lines", "step in lengths of the filters", "loss")
        legend(panels[0])
    last = panels[-1]
    contours(last, around["steps"], around["steps"], around["losses"])
    last.plot([0], [0], "*", color=PALETTE[1], markersize=11, markeredgecolor="white")
    unit = {"filter": "lengths of the filters", "weight": "sizes of the weights", "none": "standard deviations"}
    dress(
        last,
        "A random plane around the model",
        f"step in {unit[around['scale']]}",
        "step in another direction",
        grid=False,
    )
    last.set_aspect("equal")
    return figure


def _draw_path(axes: Axes, numbers: dict[str, Any]) -> None:
    path = numbers["path"]
    axes.plot(path["distance"], path["losses"], color=PALETTE[0], label="linear interpolation")
    axes.plot(path["checkpoints"], numbers["checkpoint_losses"], "o", color=INK, markersize=5, label="checkpoints")
    axes.plot(
        path["checkpoints"][-1:],
        numbers["checkpoint_losses"][-1:],
        "*",
        color=PALETTE[1],
        markersize=11,
        label="the model",
    )
    low, high = min(path["losses"]), max(path["losses"])
    if low > 0 and high > 20 * low:
        axes.set_yscale("log")
    dress(axes, "From checkpoint to checkpoint", "distance in the space of the weights", "loss")
    legend(axes)


def _draw_trajectory(axes: Axes, numbers: dict[str, Any]) -> None:
    plane = numbers["plane"]
    contours(axes, plane["x"], plane["y"], plane["losses"])
    xs, ys = zip(*plane["coordinates"], strict=True)
    across = "second principal component" if any(ys) else "an orthogonal random direction"
    axes.plot(xs, ys, "o-", color=INK, markersize=4, linewidth=1.2)
    axes.plot([0], [0], "*", color=PALETTE[1], markersize=11, markeredgecolor="white")
    dress(
        axes, f"The plane of the trajectory ({plane['share']:.1%} of it)", "first principal component",
        across, grid=False,
    )  # fmt: skip


def _sentences(numbers: dict[str, Any]) -> tuple[str, ...]:
    lines = [
        f"The loss of the model is {numbers['loss']:.4g}, at the rim of the random plane {numbers['rise']:.3g} more."
    ]
    if "path" in numbers:
        truth, plane = numbers["checkpoint_losses"], numbers["plane"]
        gap = max(abs(a - b) for a, b in zip(truth, plane["losses_at_coordinates"], strict=True))
        lines += [
            f"{counted(len(truth), 'checkpoint')}, from a loss of {truth[0]:.4g} to {truth[-1]:.4g}; the highest "
            f"barrier of the linear interpolation between them is {numbers['path']['barrier']:.3g}.",
            f"{plane['share']:.1%} of the trajectory lies in the plane; the loss there differs from that of the "
            f"checkpoints by at most {gap:.2g}.",
        ]
    else:
        lines.append("There are no earlier checkpoints, so the trajectory of training cannot be shown.")
    planes = [numbers["random"], *([numbers["plane"]] if "plane" in numbers else [])]
    missing = sum(not math.isfinite(value) for plane in planes for row in plane["losses"] for value in row)
    if missing:
        lines.append(
            f"At {counted(missing, 'point')} the loss is not finite, as where a running variance would be below zero."
        )
    return tuple(lines)
