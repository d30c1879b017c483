"""Sparse patterns: masks by their definitions, and kernels of bands and blocks that equal the masked quadratic form."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from deepcanon.core import UsageError
from deepcanon.nn.attention import MultiHeadAttention, attention
from deepcanon.nn.sparse_attention import (
    LocalAttention,
    band_mask,
    block_attention,
    block_mask,
    global_mask,
    local_attention,
)

Q, K, V = torch.randn(3, 2, 2, 61, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_masks_are_those_of_their_definitions() -> None:
    for i in range(7):
        for j in range(9):
            ago = i + 2 - j  # the last of 7 queries stands at the last of 9 keys
            assert bool(band_mask(7, 9, 2)[i, j]) == (abs(ago) <= 2)
            assert bool(band_mask(7, 9, 2, dilation=3)[i, j]) == (abs(ago) in (0, 3, 6))
            assert bool(band_mask(7, 9, 2, dilation=3, causal=True)[i, j]) == (ago in (0, 3, 6))
    for i in range(9):
        for j in range(9):
            assert bool(block_mask(9, 4)[i, j]) == (i // 4 == j // 4)
            assert bool(global_mask(9, [2, -1])[i, j]) == (i in (2, 8) or j in (2, 8))
    with pytest.raises(UsageError, match="of the 9 that there are"):
        global_mask(9, [9])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dilation", [1, 2, 5])
@pytest.mark.parametrize("reach", [0, 1, 3, 20, 80])
def test_local_attention_is_that_of_the_band(reach: int, dilation: int, causal: bool) -> None:
    for length in (1, 2, 20, 61):
        q, k, v = (x[..., :length, :] for x in (Q, K, V))
        wanted = attention(q, k, v, band_mask(length, length, reach, dilation=dilation, causal=causal))
        found = local_attention(q, k, v, reach, dilation=dilation, causal=causal)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 20, 80])
def test_block_attention_is_that_of_the_blocks(size: int) -> None:
    for causal in (False, True):
        wanted = attention(Q, K, V, block_mask(61, size), causal=causal)
        torch.testing.assert_close(block_attention(Q, K, V, size, causal=causal), wanted, rtol=0, atol=1e-12)


def test_the_work_grows_as_the_length() -> None:
    def work(length: int) -> int:
        x = torch.zeros(1, 1, length, 4)
        with FlopCounterMode(display=False) as counted:
            local_attention(x, x, x, 8, causal=True)
            block_attention(x, x, x, 8)
        return int(counted.get_total_flops())

    assert work(512) == 4 * work(128) > 0


def test_a_layer_attends_within_its_reach_in_every_way_of_calling_it() -> None:
    torch.manual_seed(0)
    layer = LocalAttention(8, heads=2, reach=3, dilation=2, rotary=True).double()
    full = MultiHeadAttention(8, heads=2, rotary=True).double()
    full.load_state_dict(layer.state_dict())
    x = torch.randn(2, 40, 8, dtype=torch.float64)
    band = band_mask(40, 40, 3, dilation=2)
    for causal in (False, True):
        wanted = full(x, mask=band, causal=causal)
        torch.testing.assert_close(layer(x, causal=causal), wanted)
        torch.testing.assert_close(layer(x, mask=torch.ones(40, 40, dtype=torch.bool), causal=causal), wanted)
        torch.testing.assert_close(layer.weights(x, causal=causal), full.weights(x, mask=band, causal=causal))
    cache = layer.new_cache(4)
    parts = [layer(part, causal=True, cache=cache) for part in x.split([3, 1, 30, 6], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), layer(x, causal=True))


def test_what_is_not_finite_stays_within_the_reach() -> None:
    torch.manual_seed(0)
    layer, x = LocalAttention(8, heads=2, reach=2).double(), torch.randn(1, 12, 8, dtype=torch.float64)
    healthy = layer(x, causal=True)
    x[0, 4] = torch.nan
    x.requires_grad_()
    found = layer(x, causal=True)
    assert [bool(row.isnan().any()) for row in found[0]] == [4 <= position <= 6 for position in range(12)]
    torch.testing.assert_close(found[0, 7:], healthy[0, 7:])
    found[0, 7:].sum().backward()
    assert x.grad is not None
    assert all(bool(p.grad.isfinite().all()) for p in layer.parameters() if p.grad is not None)
    with pytest.raises(UsageError, match="as many queries as keys"):
        local_attention(Q, K[..., 1:, :], V[..., 1:, :], 2)
