"""Positions keep the identities that they are made for."""

import numpy as np
import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.nn.attention import MultiHeadAttention, attention
from deepcanon.nn.positions import RelativeBias, frequencies, shift, sinusoidal, sinusoidal_2d

TABLE = sinusoidal(40, 12, dtype=torch.float64)


def test_it_is_the_papers_table() -> None:
    wanted = np.array([[f(n / 10000 ** (2 * j / 12)) for j in range(6) for f in (np.sin, np.cos)] for n in range(40)])
    np.testing.assert_allclose(TABLE.numpy(), wanted, atol=1e-12)


def test_products_depend_on_the_distance_only() -> None:
    products = TABLE @ TABLE.T
    for distance in range(40):
        wanted = (distance * frequencies(12)).cos().sum()
        torch.testing.assert_close(products.diagonal(distance), wanted.expand(40 - distance))
    torch.testing.assert_close(products.diagonal(), torch.full((40,), 6.0, dtype=torch.float64))


@pytest.mark.parametrize("by", [-7, 0, 1, 13])
def test_one_matrix_shifts_every_position(by: int) -> None:
    matrix = shift(12, by)
    start, end = max(0, -by), min(40, 40 - by)
    torch.testing.assert_close(TABLE[start:end] @ matrix.T, TABLE[start + by : end + by])
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(12, dtype=torch.float64))


def test_positions_of_pixels_encode_row_and_column() -> None:
    grid = sinusoidal_2d(3, 5, 8, dtype=torch.float64)
    assert grid.shape == (3, 5, 8)
    for row in range(3):
        for column in range(5):
            wanted = torch.cat([sinusoidal(3, 4)[row], sinusoidal(5, 4)[column]])
            torch.testing.assert_close(grid[row, column], wanted.double(), atol=1e-6, rtol=0)
    with pytest.raises(UsageError, match="multiple of 4"):
        sinusoidal_2d(2, 2, 6)
    with pytest.raises(UsageError, match="width must be even"):
        sinusoidal(2, 5)


def test_attention_depends_on_the_order_only_with_positions() -> None:
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, heads=3).double(), torch.randn(1, 6, 12, dtype=torch.float64)
    order = torch.randperm(6)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])
    placed = layer(x + TABLE[:6])
    assert (layer(x[:, order] + TABLE[:6]) - placed[:, order]).abs().max() > 1e-2


def test_a_relative_bias_is_a_number_per_distance() -> None:
    bias = RelativeBias(heads=2, reach=3)
    with torch.no_grad():
        bias.table.copy_(torch.arange(14).view(2, 7))
    found = bias(4, 6)
    for head in range(2):
        for i in range(4):
            for j in range(6):
                assert found[head, i, j] == 7 * head + 3 + min(3, max(-3, j - (i + 2)))
    assert torch.equal(bias(1, 6), bias(6, 6)[:, -1:])
    q = torch.randn(1, 2, 4, 5)
    k = torch.randn(1, 2, 6, 5)
    scores = q @ k.mT / 5**0.5 + found
    torch.testing.assert_close(attention(q, k, k, bias=found), scores.softmax(-1) @ k)
