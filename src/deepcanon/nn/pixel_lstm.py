"""Recurrent layers of images: LSTMs that go over the rows, or over the diagonals, of the pixels before each pixel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from deepcanon.nn.masked_convolution import LeftConv, Step
from deepcanon.nn.pixel_net import PixelLayer

REACH = 1
"""How many pixels to each side of the row above a row LSTM sees, and how many to the left in the row itself."""


class RowLSTM(PixelLayer):
    r"""An LSTM whose state is a row of the image, which it passes to the next row by a convolution.

    .. math:: (o, f, i, g) = I * x_r + S * h_{r-1}, \qquad c_r = \sigma(f) \odot c_{r-1} + \sigma(i) \odot \tanh(g),
              \qquad h_r = \sigma(o) \odot \tanh(c_r)

    The convolution I of the inputs is masked, S need not be. A pixel sees a triangle above it, so not all pixels before
    it.

    References:
        | Pixel Recurrent Neural Networks (van den Oord et al., 2016), https://arxiv.org/abs/1601.06759

    Arguments:
        inputs: The degrees of the input maps.
        units: The degrees of the hidden maps.
    """

    def __init__(self, inputs: Tensor, units: Tensor) -> None:
        super().__init__()
        self.units = len(units)
        self.input_to_state = LeftConv(inputs, units.repeat(4), REACH)
        self.state_to_state = nn.Conv1d(len(units), 4 * len(units), 2 * REACH + 1, padding=REACH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows: list[Tensor] = []
        gates = self.input_to_state(x)
        c = torch.zeros_like(gates[:, : self.units, 0])
        for gates_of in gates.unbind(2):  # (B, 4 units, W) each
            h, c = _cell(gates_of + self.state_to_state(rows[-1]) if rows else gates_of, c, 1)
            rows.append(h)
        return torch.stack(rows, 2)

    def steps(self, n: int, height: int, width: int) -> Step:
        gates = self.input_to_state.steps(n, height, width)
        zeros = self.state_to_state.weight.new_zeros
        h, c = zeros(2, n, self.units, width), zeros(2, n, self.units, width)  # of the row above, and of this one
        carried, current = h[0], 0

        def step(x: Tensor, row: int, column: int) -> Tensor:
            nonlocal carried, current
            if row != current:
                h[0], c[0], current = h[1], c[1], row
                carried = self.state_to_state(h[0])
            new = gates(x, row, column)
            if row:
                new = new + carried[:, :, column]
            h[1, :, :, column], c[1, :, :, column] = _cell(new, c[0, :, :, column], 1)
            return h[1, :, :, column]

        return step


class DiagonalLSTM(nn.Module):
    r"""An LSTM over the diagonals of an image: a pixel has the states of its left neighbor and of that above it.

    .. math:: (o, f, i, g)_{rs} = I x_{rs} + A h_{r, s-1} + B h_{r-1, s}, \qquad
              c_{rs} = \sigma(f) \odot c_{r, s-1} + \sigma(i) \odot \tanh(g), \qquad
              h_{rs} = \sigma(o) \odot \tanh(c_{rs})

    All pixels of a diagonal are computed at once. ``mirrored``, it comes from the right: a pixel then has the state of
    its right neighbor.

    References:
        | Pixel Recurrent Neural Networks (van den Oord et al., 2016), https://arxiv.org/abs/1601.06759
    """

    def __init__(self, input_to_state: nn.Conv2d, units: int) -> None:
        super().__init__()
        self.units = units
        self.input_to_state = input_to_state
        self.state_to_state = nn.Parameter(torch.empty(4 * units, 2 * units))
        nn.init.uniform_(self.state_to_state, -1 / math.sqrt(2 * units), 1 / math.sqrt(2 * units))

    def forward(self, x: Tensor, *, mirrored: bool = False) -> Tensor:
        gates = self.input_to_state(x.flip(3) if mirrored else x)
        height, width = gates.shape[2:]
        order, lengths = _diagonals(height, width, gates.device)
        diagonals = gates.flatten(2).permute(2, 0, 1)[order].split(lengths)  # (pixels, B, 4 units) each, from above
        h = c = gates.new_zeros(0, len(x), self.units)
        states, first = [], 0  # the first row of the diagonal
        for number, gates_of in enumerate(diagonals):
            top = max(0, number - width + 1)
            # The last row of a diagonal that grows has no left neighbor, the first row of an image none above.
            new_row = (0, 0, 0, 0, 0, int(number < height))
            left, memory = pad(h[top - first :], new_row), pad(c[top - first :], new_row)
            above = pad(h, (0, 0, 0, 0, 1, 0))[: len(left)] if top == 0 else h[: len(left)]
            h, c = _cell(gates_of + linear(torch.cat([left, above], 2), self.state_to_state), memory, 2)
            states.append(h)
            first = top
        back: Tensor = torch.cat(states)[order.argsort()].permute(1, 2, 0).unflatten(2, (height, width))
        return back.flip(3) if mirrored else back

    def cell(self, gates: Tensor, left: tuple[Tensor, Tensor], above: Tensor) -> tuple[Tensor, Tensor]:
        """One pixel: h and c, (n, units), from its inputs' gates, h and c of its neighbor, and h of that above."""
        return _cell(gates + linear(torch.cat([left[0], above], 1), self.state_to_state), left[1], 1)


class DiagonalBiLSTM(PixelLayer):
    """Two diagonal LSTMs, from the left and from the right: together they see the inputs of all pixels before each one.

    That from the right is shifted down by a row, since to the right of a pixel only rows above it are known.

    References:
        | Pixel Recurrent Neural Networks (van den Oord et al., 2016), https://arxiv.org/abs/1601.06759

    Arguments:
        inputs: The degrees of the input maps.
        units: The degrees of the hidden maps.
    """

    def __init__(self, inputs: Tensor, units: Tensor) -> None:
        super().__init__()
        self.from_left = DiagonalLSTM(LeftConv(inputs, units.repeat(4), 0), len(units))
        self.from_right = DiagonalLSTM(nn.Conv2d(len(inputs), 4 * len(units), 1), len(units))

    def forward(self, x: Tensor) -> Tensor:
        left: Tensor = self.from_left(x)
        if x.shape[2] == 1:  # there is no row above
            return left
        return left + pad(self.from_right(x[:, :, :-1], mirrored=True), (0, 0, 1, 0))

    @property
    def units(self) -> int:
        return self.from_left.units

    def steps(self, n: int, height: int, width: int) -> Step:
        gates = cast(LeftConv, self.from_left.input_to_state).steps(n, height, width)
        new = self.from_left.state_to_state.new_zeros
        inputs = self.from_right.input_to_state.in_channels
        row_inputs = new(n, inputs, 1, width)
        above, right, zero = new(n, self.units, width), new(n, self.units, width), new(n, self.units)
        left, current = (zero, zero), 0
        states: list[tuple[Tensor, Tensor]] = [(zero, zero)] * width

        def ended_row() -> None:
            """With the row above known as a whole, go over it from the right."""
            wanted = self.from_right.input_to_state(row_inputs).squeeze(2)
            state = (zero, zero)
            for column in reversed(range(width)):
                state = self.from_right.cell(wanted[:, :, column], state, right[:, :, column].clone())
                right[:, :, column] = state[0]
                above[:, :, column] = states[column][0]

        def step(x: Tensor, row: int, column: int) -> Tensor:
            nonlocal left, current
            if row != current:
                current = row
                ended_row()
            row_inputs[:, :, 0, column] = x
            left = states[column - 1] if column else (zero, zero)
            states[column] = self.from_left.cell(gates(x, row, column), left, above[:, :, column])
            return states[column][0] + right[:, :, column]

        return step


class RecurrentBlock(PixelLayer):
    """A recurrent layer with half as many maps inside, whose outputs a 1x1 convolution adds to its inputs."""

    def __init__(self, inner: Tensor, layer: Callable[[Tensor, Tensor], PixelLayer]) -> None:
        super().__init__()
        degrees = inner.repeat(2)
        self.layer = layer(degrees, inner)
        self.up = LeftConv(inner, degrees, 0)

    def forward(self, x: Tensor) -> Tensor:
        new: Tensor = self.up(self.layer(x))
        return x + new

    def steps(self, n: int, height: int, width: int) -> Step:
        layer, up = self.layer.steps(n, height, width), self.up.steps(n, height, width)
        return lambda x, row, column: x + up(layer(x, row, column), row, column)


def _cell(gates: Tensor, memory: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The output h and the new cell state c of an LSTM, from its gates o, f, i, g and the cell state before."""
    units = gates.shape[dim] // 4
    doors, new = gates.split([3 * units, units], dim)
    o, f, i = doors.sigmoid().chunk(3, dim)
    c = f * memory + i * new.tanh()
    return o * c.tanh(), c


def _diagonals(height: int, width: int, device: torch.device) -> tuple[Tensor, list[int]]:
    """The pixels, numbered row by row, in the order of the diagonals from the upper left, and how long these are."""
    number = [row + column for row in range(height) for column in range(width)]
    order = sorted(range(height * width), key=number.__getitem__)  # in a diagonal from above, since the sort is stable
    lengths = [number.count(diagonal) for diagonal in range(height + width - 1)]
    return torch.tensor(order, device=device), lengths
