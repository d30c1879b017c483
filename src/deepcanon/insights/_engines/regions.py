"""Linear regions of ReLU networks: found exactly along a line and on a plane, and bounds on their number."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from deepcanon.core import UsageError, eval_mode

RECTIFIERS = (functional.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_, functional.leaky_relu,
              functional.prelu, torch.prelu)  # fmt: skip
"""The piecewise linear activations with one kink, at zero."""

ROUNDING = 1e-11
"""Values below this fraction of the largest are taken for zero."""

CHUNK = 4096
MOST = 100_000

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """The piecewise linear function of a network between two points, by a coordinate from 0 to 1."""

    knots: Tensor
    """The coordinates at which some ReLU switches, and both ends."""
    values: Tensor
    """The outputs at the knots, (knots, outputs)."""
    slopes: Tensor
    """The derivative of the outputs by the coordinate, between the knots, (knots - 1, outputs)."""
    joints: Tensor
    """The knots at which the slope changes."""

    @property
    def patterns(self) -> int:
        """The number of activation patterns: how often, plus one, the set of the active units changes."""
        return len(self.knots) - 1

    @property
    def regions(self) -> int:
        """The number of intervals on which the outputs are linear."""
        return len(self.joints) + 1


@dataclass(frozen=True)
class Plane:
    """The linear regions of a window on a plane, each a convex polygon with corners (V, 2)."""

    polygons: tuple[Points, ...]
    values: Tensor
    """The outputs in the middle of each region, (regions, outputs)."""
    gradients: Tensor
    """Their derivatives by the two coordinates there, (regions, outputs, 2)."""

    @property
    def regions(self) -> int:
        return len(self.polygons)


class Rectified:
    """A copy of a network of ReLUs and linear maps, in double precision; the given one is left as it is."""

    def __init__(self, model: nn.Module) -> None:
        self.net = copy.deepcopy(model).double().requires_grad_(False)

    def preactivations(self, x: Tensor) -> list[Tensor]:
        """The preactivations of the ReLUs, one (B, units) for each call, in their order."""
        parts = []
        with eval_mode(self.net):
            for chunk in x.split(CHUNK):
                recorder = _Recorder()
                with recorder:
                    self.net(chunk)
                parts.append(recorder.inputs)
        return [torch.cat(pieces) for pieces in zip(*parts, strict=True)]

    def outputs(self, x: Tensor) -> Tensor:
        """The outputs, (B, outputs)."""
        with eval_mode(self.net):
            return torch.cat([self._rows(self.net(chunk)) for chunk in x.split(CHUNK)])

    def derivative(self, x: Tensor, direction: Tensor) -> Tensor:
        """The derivative of the outputs along a direction, (B, outputs)."""
        return torch.cat([self._along(chunk, direction) for chunk in x.split(CHUNK)])

    def _along(self, x: Tensor, direction: Tensor) -> Tensor:
        with eval_mode(self.net), torch.enable_grad():
            x = x.detach().requires_grad_()
            outputs = self._rows(self.net(x))
            weights = torch.zeros_like(outputs, requires_grad=True)
            # the gradient is linear in the weights of the outputs, and its own gradient in these is the derivative
            (gradient,) = torch.autograd.grad(outputs, x, weights, create_graph=True)
            return torch.autograd.grad(gradient, weights, direction.expand_as(x))[0]

    def _rows(self, output: Any) -> Tensor:
        if not isinstance(output, Tensor):
            raise UsageError(f"linear regions are those of a map to one tensor, got a {type(output).__name__}")
        return output.flatten(1)


def widths(model: nn.Module, x: Tensor) -> list[int]:
    """The number of ReLUs in each layer of them."""
    found = [part.shape[1] for part in Rectified(model).preactivations(x[:1].double())]
    if not found:
        raise UsageError("the model has no relu, leaky_relu or prelu, so it has no linear regions to count")
    return found


def regions_on_line(model: nn.Module, start: Tensor, end: Tensor) -> Line:
    """The linear regions between two examples, found exactly: layer by layer, where each unit changes its sign."""
    net, start, way = Rectified(model), start.double(), end.double() - start.double()

    def at(coordinates: Tensor) -> Tensor:
        return start + coordinates.reshape(-1, *[1] * start.ndim) * way

    knots = torch.tensor([0.0, 1.0], dtype=torch.float64)
    for stage in range(len(net.preactivations(at(knots)))):
        values = _without_rounding(net.preactivations(at(knots))[stage])
        left, right = values[:-1], values[1:]
        piece, unit = (left * right < 0).nonzero().T
        a, b = left[piece, unit], right[piece, unit]
        zeros = knots[piece] + (knots[piece + 1] - knots[piece]) * a / (a - b)
        knots = _distinct(torch.cat([knots, zeros]))
    outputs, slopes = net.outputs(at(knots)), net.derivative(at((knots[1:] + knots[:-1]) / 2), way)
    straight = outputs[:-1] + slopes * (knots[1:] - knots[:-1]).unsqueeze(1)
    _check_linear(straight - outputs[1:], outputs)
    bent = _without_rounding(slopes.diff(dim=0), slopes).ne(0).any(1)
    return Line(knots, outputs, slopes, knots[1:-1][bent])


def regions_on_plane(
    model: nn.Module, at: Callable[[Tensor], Tensor], window: tuple[float, float, float, float]
) -> Plane:
    """The linear regions on a window (left, right, bottom, top) of a plane, one for each activation pattern.

    ``at`` maps coordinates (B, 2) linearly to examples. They are found exactly, layer by layer: on every region found
    so far a unit is linear, and where it changes its sign the line at which it is zero cuts the region in two.
    """
    net = Rectified(model)
    left, right, bottom, top = window
    regions: list[Points] = [np.array([[left, bottom], [right, bottom], [right, top], [left, top]], dtype=np.float64)]
    for stage in range(len(net.preactivations(at(torch.zeros(1, 2, dtype=torch.float64))))):
        corners = torch.from_numpy(np.concatenate(regions))
        values = _without_rounding(net.preactivations(at(corners))[stage]).numpy()
        ends = np.cumsum([len(region) for region in regions])[:-1]
        cut = zip(regions, np.split(values, ends), strict=True)
        regions = _limited(piece for region, part in cut for piece in _pieces(region, part))
    middles = torch.from_numpy(np.stack([region.mean(0) for region in regions]))
    base, first, second = at(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64))
    slopes = [net.derivative(at(middles), direction - base) for direction in (first, second)]
    plane = Plane(tuple(regions), net.outputs(at(middles)), torch.stack(slopes, -1))
    one = torch.from_numpy(np.stack([region[0] for region in regions]))
    straight = plane.values + (plane.gradients @ (one - middles).unsqueeze(-1)).squeeze(-1)
    _check_linear(straight - net.outputs(at(one)), plane.values)
    return plane


def zaslavsky(units: int, dimensions: int) -> int:
    r"""The number of regions of n hyperplanes in general position (Zaslavsky): :math:`\sum_{j \le d} \binom{n}{j}`.

    >>> zaslavsky(3, 1), zaslavsky(3, 2), zaslavsky(3, 3)
    (4, 7, 8)
    """
    return sum(comb(units, j) for j in range(dimensions + 1))


def most_regions(layers: Sequence[int], dimensions: int) -> int:
    r"""An upper bound on the regions of networks of these widths: :math:`\prod_l \sum_{j \le d_l} \binom{n_l}{j}`.

    Here :math:`d_l` is the smallest of the dimension of the input and the widths before layer l. For one input it is
    :math:`\prod_l (n_l + 1)`, which K layers of D units reach as :math:`(D + 1)^K`.

    >>> most_regions([3, 3], 1), most_regions([4], 2)
    (16, 11)
    """
    narrow = [min([dimensions, *layers[: i + 1]]) for i in range(len(layers))]
    return prod(zaslavsky(width, least) for width, least in zip(layers, narrow, strict=True))


def montufar(layers: Sequence[int], dimensions: int) -> int:
    r"""The number of regions that some network of these widths has: folds of space, then hyperplanes.

    .. math:: \prod_{l < L} \lfloor n_l / d \rfloor^d \; \sum_{j \le d} \binom{n_L}{j}

    >>> montufar([2, 2, 2], 1), montufar([4, 4], 2)
    (12, 44)
    """
    *folds, last = layers
    folded: int = prod((width // dimensions) ** dimensions for width in folds)
    return folded * zaslavsky(last, dimensions)


class _Recorder(TorchFunctionMode):
    """A recorder of the inputs of every ReLU, called as a module or as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RECTIFIERS:
            self.inputs.append(args[0].detach().flatten(1).clone())
        return func(*args, **(kwargs or {}))


def _pieces(corners: Points, values: Points) -> Iterable[Points]:
    """The convex parts into which units cut a polygon; ``values`` are the preactivations at its corners, (V, units)."""
    stack = [(corners, values, 0)]
    while stack:
        corners, values, first = stack.pop()
        cuts = np.flatnonzero((values[:, first:].max(0) > 0) & (values[:, first:].min(0) < 0))
        if not len(cuts):
            yield corners
            continue
        unit = first + int(cuts[0])
        stack += [(*_side(corners, values, unit, sign), unit + 1) for sign in (1, -1)]


def _side(corners: Points, values: Points, unit: int, sign: int) -> tuple[Points, Points]:
    """The part of a polygon on one side of the line at which a unit is zero, with the values at its corners."""
    height = sign * values[:, unit]
    rows = np.concatenate([corners, values], 1)
    kept: list[Points] = []
    for i in range(len(rows)):
        j = (i + 1) % len(rows)
        if height[i] >= 0:
            kept.append(rows[i])
        if height[i] * height[j] < 0:
            new = rows[i] + (rows[j] - rows[i]) * (height[i] / (height[i] - height[j]))
            new[2 + unit] = 0.0
            kept.append(new)
    part = np.stack(kept)
    return part[:, :2], part[:, 2:]


def _limited(pieces: Iterable[Points]) -> list[Points]:
    found = []
    for piece in pieces:
        found.append(piece)
        if len(found) > MOST:
            raise UsageError(f"there are more than {MOST} regions here: take a smaller window")
    return found


def _without_rounding(values: Tensor, like: Tensor | None = None) -> Tensor:
    """The values, with zero for those that are only rounding, column by column."""
    scale = (values if like is None else like).abs().amax(0, keepdim=True) if len(values) else values
    return values.where(values.abs() > ROUNDING * scale, 0.0)


def _distinct(coordinates: Tensor) -> Tensor:
    coordinates = coordinates.sort().values
    apart = coordinates.diff() > ROUNDING
    return coordinates[torch.cat([torch.ones(1, dtype=torch.bool), apart])]


def _check_linear(off: Tensor, outputs: Tensor) -> None:
    if float(off.abs().max()) > 1e-6 * (1e-9 + float(outputs.abs().max())):
        raise UsageError(
            "between its ReLUs the model is not linear: linear regions are those of networks of relu, leaky_relu or "
            "prelu and linear layers"
        )
