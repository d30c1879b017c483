"""LSTMs over rows and diagonals of an image, pixel by pixel from their weights."""

from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.nn.pixel_lstm import DiagonalBiLSTM, RecurrentBlock, RowLSTM

DEGREES = torch.zeros(3, dtype=torch.long)


def cell(gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    o, f, i, g = gates.chunk(4, -1)
    c = f.sigmoid() * memory + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def test_a_row_lstm_by_hand() -> None:
    torch.manual_seed(0)
    layer = RowLSTM(DEGREES[:2], DEGREES).double()
    x = torch.randn(1, 2, 4, 5, dtype=torch.float64)
    state = layer.state_dict()
    inputs, bias, carry = (
        state["input_to_state.weight"][:, :, 0],
        state["input_to_state.bias"],
        state["state_to_state.weight"],
    )
    zero = torch.zeros(3, dtype=torch.float64)
    h: dict[Any, Tensor] = {}
    c: dict[Any, Tensor] = {}
    for r in range(4):
        for s in range(5):
            gates = bias + inputs[:, :, 1] @ x[0, :, r, s] + (inputs[:, :, 0] @ x[0, :, r, s - 1] if s else 0)
            for offset in (-1, 0, 1):
                gates = gates + carry[:, :, offset + 1] @ h.get((r - 1, s + offset), zero)
            h[r, s], c[r, s] = cell(gates, c.get((r - 1, s), zero))
    with torch.no_grad():
        found = layer(x)[0]
    for (r, s), value in h.items():
        torch.testing.assert_close(found[:, r, s], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("height", "width"), [(4, 5), (5, 3), (1, 4), (4, 1)])
def test_a_diagonal_bilstm_by_hand(height: int, width: int) -> None:
    torch.manual_seed(0)
    layer = DiagonalBiLSTM(DEGREES[:2], DEGREES).double()
    x = torch.randn(1, 2, height, width, dtype=torch.float64)
    zero = torch.zeros(3, dtype=torch.float64)
    states = {}
    for name, side in (("from_left", -1), ("from_right", 1)):
        part = {key.removeprefix(f"{name}."): value for key, value in layer.state_dict().items() if name in key}
        inputs, bias = part["input_to_state.weight"][:, :, 0, 0], part["input_to_state.bias"]
        h: dict[Any, Tensor] = {}
        c: dict[Any, Tensor] = {}
        for r in range(height):
            for s in range(width) if side < 0 else reversed(range(width)):
                before = torch.cat([h.get((r, s + side), zero), h.get((r - 1, s), zero)])
                gates = bias + inputs @ x[0, :, r, s] + part["state_to_state"] @ before
                h[r, s], c[r, s] = cell(gates, c.get((r, s + side), zero))
        states[name] = h
    with torch.no_grad():
        found = layer(x)[0]
    for (r, s), value in states["from_left"].items():
        wanted = value + states["from_right"].get((r - 1, s), zero)
        torch.testing.assert_close(found[:, r, s], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layer", [RowLSTM, DiagonalBiLSTM])
def test_a_block_adds_what_its_layer_gives(layer: Any) -> None:
    torch.manual_seed(0)
    block = RecurrentBlock(DEGREES, layer).double()
    x = torch.randn(2, 6, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(block(x), x + block.up(block.layer(x)))
