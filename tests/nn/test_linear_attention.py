"""Linear attention is its quadratic form, and its running sums are those of decoding step by step."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from deepcanon.core import UsageError
from deepcanon.nn.linear_attention import (
    CHUNK,
    LinearAttention,
    RunningSums,
    elu_features,
    linear_attention,
    linear_attention_weights,
)


def tensors(length: int, parts: int = 3, width: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randn(parts, 2, 3, length, width, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_it_equals_the_quadratic_form_written_out(length: int, causal: bool) -> None:
    q, k, v = tensors(length)
    scores = (torch.where(q > 0, q + 1, q.exp()) @ torch.where(k > 0, k + 1, k.exp()).mT).tril(0 if causal else length)
    wanted = scores / scores.sum(-1, keepdim=True) @ v
    torch.testing.assert_close(linear_attention(q, k, v, causal=causal), wanted, rtol=0, atol=1e-12)
    weights = linear_attention_weights(q, k, causal=causal)
    torch.testing.assert_close(weights @ v, wanted, rtol=0, atol=1e-12)
    assert float(weights.min()) >= 0


def test_gradients_are_those_of_the_quadratic_form() -> None:
    q, k, v = (x.requires_grad_() for x in tensors(CHUNK + 9))
    found = torch.autograd.grad(linear_attention(q, k, v, causal=True).square().sum(), (q, k, v))
    wanted = torch.autograd.grad((linear_attention_weights(q, k, causal=True) @ v).square().sum(), (q, k, v))
    for ours, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-10, atol=1e-12)


def test_masks_hide_keys_and_the_last_query_stands_at_the_last_key() -> None:
    q, k, v = tensors(9)
    hidden = torch.rand(2, 1, 1, 9, generator=torch.Generator().manual_seed(0)) < 0.5
    hidden[..., 0] = True
    for causal in (False, True):
        wanted = linear_attention_weights(q, k, hidden.expand(2, 1, 9, 9), causal=causal) @ v
        torch.testing.assert_close(linear_attention(q, k, v, hidden, causal=causal), wanted)
        whole = linear_attention(q, k, v, causal=causal)
        torch.testing.assert_close(linear_attention(q[..., 6:, :], k, v, causal=causal), whole[..., 6:, :])
    late = linear_attention(q, k[..., 4:, :], v[..., 4:, :], causal=True)
    assert not late[..., :4, :].any()  # these queries stand before all keys
    assert not linear_attention(q, k, v, torch.zeros(9, dtype=torch.bool)).any()
    with pytest.raises(UsageError, match="a mask is boolean"):
        linear_attention(q, k, v, torch.ones(9))


def test_the_state_is_a_sum_over_all_that_was_read() -> None:
    q, k, v = tensors(11)
    state = RunningSums()
    parts = [
        state.attend(elu_features(q[..., a:b, :]), elu_features(k[..., a:b, :]), v[..., a:b, :])
        for a, b in ((0, 4), (4, 5), (5, 11))
    ]
    torch.testing.assert_close(torch.cat(parts, 2), linear_attention(q, k, v, causal=True), rtol=0, atol=1e-12)
    assert state.sums is not None
    torch.testing.assert_close(state.sums[..., :-1], elu_features(k).mT @ v)
    torch.testing.assert_close(state.sums[..., -1], elu_features(k).sum(-2))
    assert torch.equal(state.select(torch.tensor([1, 1])).sums, state.sums[[1, 1]])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="keep all of them or none"):
        state.crop(3)
    state.crop(0)
    assert state.sums is None


def test_a_layer_with_a_cache_passes_nothing_on_to_what_came_before() -> None:
    torch.manual_seed(0)
    layer, x = LinearAttention(6, heads=2).double(), torch.randn(2, 7, 6, dtype=torch.float64)
    poisoned = x.clone()
    poisoned[0, 3] = torch.nan
    cache = layer.new_cache(1)
    found = torch.cat([layer(part, causal=True, cache=cache) for part in poisoned.split([5, 1, 1], 1)], 1)
    whole = layer(x, causal=True)
    torch.testing.assert_close(found[0, :3], whole[0, :3])
    torch.testing.assert_close(found[1], whole[1])
    assert bool(found[0, 3:].isnan().all())


def test_what_it_cannot_do_is_refused() -> None:
    layer, x = LinearAttention(6, heads=2), torch.zeros(1, 3, 6)
    for call in (layer, layer.weights):
        with pytest.raises(UsageError, match="no scores that a bias"):
            call(x, bias=torch.zeros(3, 3))
    with pytest.raises(UsageError, match="causal self-attention"):
        layer(x, cache=layer.new_cache(1))


def test_the_work_grows_as_the_length() -> None:
    def work(length: int) -> int:
        with FlopCounterMode(display=False) as counted:
            linear_attention(*tensors(length), causal=True)
        return int(counted.get_total_flops())

    assert work(16 * CHUNK) == pytest.approx(4 * work(4 * CHUNK), rel=1e-12)
