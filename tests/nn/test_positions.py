"""Positions keep the identities that they are made for."""

import numpy as np
import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.nn.attention import MultiHeadAttention, attention
from deepcanon.nn.positions import (
    ConcatenatedPositions,
    RelativeBias,
    Rotary,
    frequencies,
    shift,
    sinusoidal,
    sinusoidal_2d,
)

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


def test_rotary_positions_are_those_of_hugging_face() -> None:
    reason = "needs transformers, of deepcanon[oracles]"
    peer = pytest.importorskip("transformers.models.gptj.modeling_gptj", reason=reason)
    x = torch.randn(2, 7, 3, 12, generator=torch.Generator().manual_seed(0))  # (B, T, heads, d), as GPT-J has them
    sin, cos = peer.create_sinusoidal_positions(40, 12)[5:12].expand(2, -1, -1).chunk(2, -1)
    wanted = peer.apply_rotary_pos_emb(x, sin, cos)
    torch.testing.assert_close(Rotary(12)(x.transpose(1, 2), 5).transpose(1, 2), wanted, rtol=1e-5, atol=1e-5)


def test_a_rotation_is_the_transposed_shift_and_products_know_the_distance_only() -> None:
    q, k = torch.randn(2, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rotary = Rotary(12)
    for n in range(9):
        torch.testing.assert_close(rotary(q.view(1, 12), n)[0], shift(12, n).T @ q)
    products = rotary(q.expand(9, 12)) @ rotary(k.expand(9, 12)).T
    for n in range(9):
        for m in range(9):
            torch.testing.assert_close(products[n, m], q @ shift(12, n - m) @ k)


def test_a_layer_with_rotary_positions_knows_distances_and_no_places() -> None:
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, heads=3, rotary=True).double(), torch.randn(1, 6, 12, dtype=torch.float64)
    order = torch.tensor([1, 0, 2, 3, 4, 5])
    assert (layer(x[:, order]) - layer(x)[:, order]).abs().max() > 1e-3
    cache = layer.new_cache(1)
    late = torch.cat([layer(part, causal=True, cache=cache) for part in x.split([2, 1, 3], 1)], 1)
    torch.testing.assert_close(late, layer(x, causal=True))
    q, k, _ = layer._heads(x, None, None)
    far_q, far_k, _ = layer._heads(x, None, None, 100)
    torch.testing.assert_close(far_q @ far_k.mT, q @ k.mT)


def test_concatenated_positions_are_added_ones_after_a_linear_layer() -> None:
    torch.manual_seed(0)
    x, layer = torch.randn(2, 5, 6, dtype=torch.float64), torch.nn.Linear(10, 3).double()
    found = ConcatenatedPositions(4)(x)
    assert torch.equal(found[..., :6], x)
    table = sinusoidal(5, 4, dtype=torch.float64)
    wanted = x @ layer.weight[:, :6].T + table @ layer.weight[:, 6:].T + layer.bias
    torch.testing.assert_close(layer(found), wanted)
    with pytest.raises(UsageError, match="width must be even"):
        ConcatenatedPositions(3)
