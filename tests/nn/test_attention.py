"""Attention is torch's where torch is right: masked, causal, with widths of its own for keys and values."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from deepcanon.core import UsageError
from deepcanon.nn.attention import MultiHeadAttention, attention, attention_weights, causal_mask
from deepcanon.nn.kv_cache import KVCache


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_hand(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, bias: Tensor | None = None) -> Tensor:
    """Equation (1), one query after the other, over the keys it may attend to and no others."""
    rows = []
    for i in range(q.shape[-2]):
        keys = allowed[i].nonzero().flatten()
        score = k[keys] @ q[i] / math.sqrt(q.shape[-1]) + (0 if bias is None else bias[i, keys])
        rows.append(score.softmax(-1) @ v[keys] if len(keys) else torch.zeros_like(v[0]))
    return torch.stack(rows)


MASKS = {
    "all": torch.ones(4, 6, dtype=torch.bool),
    "causal": causal_mask(4, 6),
    "one row blind": torch.ones(4, 6, dtype=torch.bool).index_fill_(0, torch.tensor([2]), False),
    "two keys hidden": torch.ones(4, 6, dtype=torch.bool).index_fill_(1, torch.tensor([0, 5]), False),
    "nothing": torch.zeros(4, 6, dtype=torch.bool),
    "random": torch.rand(4, 6, generator=torch.Generator().manual_seed(3)) < 0.4,
}


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_it_is_the_formula_over_the_keys_that_a_query_may_attend_to(name: str, biased: bool) -> None:
    q, k, v, mask = some(4, 3), some(6, 3, seed=1), some(6, 5, seed=2), MASKS[name]
    bias = some(4, 6, seed=4) if biased else None
    wanted = by_hand(q, k, v, mask, bias)
    found = attention(q[None], k[None], v[None], mask, bias=bias)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    weights = attention_weights(q, k, mask, bias=bias)
    torch.testing.assert_close(weights @ v, wanted, rtol=1e-10, atol=1e-12)
    assert not weights[~mask].any()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double())


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 5), (3, 5), (5, 5), (5, 3)])
def test_the_last_query_stands_at_the_last_key(queries: int, keys: int) -> None:
    q, k, v = some(queries, 3), some(keys, 3, seed=1), some(keys, 2, seed=2)
    allowed = torch.tensor([[j - keys <= i - queries for j in range(keys)] for i in range(queries)])
    assert torch.equal(causal_mask(queries, keys), allowed)
    torch.testing.assert_close(attention(q[None], k[None], v[None], causal=True)[0], by_hand(q, k, v, allowed))
    seen = torch.rand(keys, generator=torch.Generator().manual_seed(0)) < 0.6
    both = attention(q[None], k[None], v[None], seen.expand(queries, keys), causal=True)[0]
    torch.testing.assert_close(both, by_hand(q, k, v, allowed & seen))


def test_no_gradient_comes_from_a_row_with_all_keys_masked() -> None:
    tensors = [some(4, 3).requires_grad_(), some(6, 3, seed=1).requires_grad_(), some(6, 3, seed=2).requires_grad_()]
    q, k, v = (tensor[None] for tensor in tensors)
    attention(q, k, v, MASKS["one row blind"]).square().sum().backward()
    gradients = [t.grad for t in tensors if t.grad is not None]
    assert len(gradients) == 3
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][2].any()
    assert gradients[0][0].any()


def test_a_mask_of_numbers_is_refused() -> None:
    q = some(1, 2, 3)
    with pytest.raises(UsageError, match="True where a query may attend; got one of torch"):
        attention(q, q, q, torch.zeros(2, 2, dtype=torch.float64))
    with pytest.raises(UsageError, match="multiple of heads"):
        MultiHeadAttention(6, heads=4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kdim", "vdim"), [(None, None), (12, 12), (7, 5), (None, 5), (7, None)])
def test_it_is_torch_nn_multihead_attention_on_the_same_weights(kdim: int | None, vdim: int | None, bias: bool) -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(12, heads=3, kdim=kdim, vdim=vdim, bias=bias).double()
    theirs = nn.MultiheadAttention(12, 3, kdim=kdim, vdim=vdim, bias=bias, batch_first=True).double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter))
        if theirs.in_proj_weight is not None and ours.fused:
            ours.projection.weight.copy_(theirs.in_proj_weight)
            if bias:
                ours.projection.bias.copy_(theirs.in_proj_bias)
        else:
            parts = (ours.query, ours.key, ours.value)
            for number, name in enumerate("qkv"):
                parts[number].weight.copy_(getattr(theirs, f"{name}_proj_weight"))
                if bias:
                    parts[number].bias.copy_(theirs.in_proj_bias.chunk(3)[number])
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    query, key, value = some(2, 4, 12), some(2, 6, kdim or 12, seed=1), some(2, 6, vdim or 12, seed=2)
    padded = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    hidden = ~MASKS["causal"]
    wanted, weights = theirs(query, key, value, key_padding_mask=padded, attn_mask=hidden, average_attn_weights=False)
    mask = ~padded[:, None, None, :] & ~hidden
    torch.testing.assert_close(ours(query, key, value, mask), wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.weights(query, key, mask), weights, rtol=1e-10, atol=1e-12)
    if kdim is vdim is None:
        itself, _ = theirs(query, query, query, attn_mask=~causal_mask(4, 4))
        torch.testing.assert_close(ours(query, causal=True), itself, rtol=1e-10, atol=1e-12)


def test_dropout_leaves_weights_out_in_training_only() -> None:
    layer = MultiHeadAttention(8, heads=2, dropout=0.5).double()
    x = some(1, 5, 8)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_decoding_with_a_cache_is_the_full_forward_pass() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, heads=2).double()
    x = some(3, 7, 8)
    whole = layer(x, causal=True)
    cache = KVCache(capacity=2)  # which must grow twice
    parts = [layer(part, causal=True, cache=cache) for part in x.split((2, 1, 3, 1), dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-12, atol=1e-14)
    cache.crop(4)
    torch.testing.assert_close(layer(x[:, 4:], causal=True, cache=cache), whole[:, 4:], rtol=1e-12, atol=1e-14)
    cache.crop(6)
    rows = torch.tensor([2, 2, 0, 1])
    cache = cache.select(rows)
    torch.testing.assert_close(layer(x[rows, 6:], causal=True, cache=cache), whole[rows, 6:], rtol=1e-12, atol=1e-14)
    assert cache.size == 7
    with pytest.raises(UsageError, match="a cache of 7 positions can be cropped to 0 to 7"):
        cache.crop(8)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("part", [0, 1, 2], ids=["query", "key", "value"])
@pytest.mark.parametrize("how", ["causal", "mask", "both"])
def test_what_is_not_finite_reaches_no_query_that_it_is_masked_for(part: int, number: float, how: str) -> None:
    mask = None if how == "causal" else causal_mask(6, 6).expand(2, 1, 6, 6)
    outputs, gradients = [], []
    for value in (0.5, number):
        tensors = [some(2, 2, 6, 3, seed=seed) for seed in range(3)]
        tensors[part][:, :, 4] = value
        tensors = [tensor.requires_grad_() for tensor in tensors]
        q, k, v = tensors
        whole = attention(q, k, v, mask, causal=how != "mask")
        outputs.append(whole[:, :, :4].detach())
        whole[:, :, :4].square().sum().backward()
        gradients.append([tensor.grad for tensor in tensors])
    assert whole[:, :, 4].isnan().all()
    assert whole[:, :, 5].isnan().all() == (part > 0)
    assert torch.equal(*outputs)
    for healthy, found in zip(*gradients, strict=True):
        assert healthy is not None
        assert found is not None
        assert torch.equal(healthy, found)
        assert not found[:, :, 4:].any()


@pytest.mark.parametrize("cached", [False, True])
def test_a_layer_keeps_its_gradients_from_the_future(cached: bool) -> None:
    layer, x = MultiHeadAttention(8, heads=2).double(), some(3, 6, 8)
    gradients = []
    for future in (0.0, math.nan, math.inf):
        given = x.clone()
        given[:, 4:] = future
        given.requires_grad_()
        layer.zero_grad()
        cache = KVCache(6) if cached else None
        layer(given, causal=True, cache=cache)[:, :4].square().sum().backward()
        gradients.append([given.grad, *(parameter.grad for parameter in layer.parameters())])
    for healthy, *others in zip(*gradients, strict=True):
        assert healthy is not None
        assert healthy.any()
        assert all(other is not None and torch.equal(other, healthy) for other in others)
    wrong = torch.where(torch.arange(6)[:, None] == 4, math.nan, x)
    spoiled = layer(wrong, causal=True, cache=KVCache(2) if cached else None)
    assert spoiled.isnan().all(-1)[0].tolist() == [False] * 4 + [True] * 2


def test_keys_of_other_sources_are_kept_out_alike() -> None:
    layer = MultiHeadAttention(8, heads=2, kdim=5, vdim=4).double()
    query, key, value = some(2, 3, 8), some(2, 6, 5, seed=1), some(2, 6, 4, seed=2)
    mask = torch.ones(2, 1, 3, 6, dtype=torch.bool)
    mask[:, :, 1, 2] = False
    healthy = layer(query, key, value, mask)
    value[:, 2] = math.nan
    found = layer(query, key, value, mask)
    assert torch.equal(found[:, 1], healthy[:, 1])
    assert found[:, [0, 2]].isnan().all()


def test_heads_may_be_of_any_width() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(6, heads=4, head_dim=5).double()
    x = some(2, 3, 6)
    q, k, v = (part.unflatten(-1, (4, 5)).transpose(1, 2) for part in layer.projection(x).chunk(3, -1))
    heads = torch.stack([torch.stack([by_hand(q[b, h], k[b, h], v[b, h], MASKS["all"][:3, :3]) for h in range(4)])
                         for b in range(2)])  # fmt: skip
    torch.testing.assert_close(layer(x), layer.output(heads.transpose(1, 2).flatten(2)))


def test_cross_attention_projects_its_keys_once() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, heads=2).double()
    x, memory = some(3, 4, 8), some(3, 6, 8, seed=1)
    cache = KVCache(capacity=6)
    parts = [layer(part, memory, cache=cache) for part in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), layer(x, memory), rtol=1e-12, atol=1e-14)
    assert cache.size == 6
    rows = torch.tensor([1, 1, 2])
    torch.testing.assert_close(layer(x[rows, :1], memory[rows], cache=cache.select(rows)), layer(x, memory)[rows, :1])
    with pytest.raises(UsageError, match="the cache is empty"):
        KVCache(capacity=2).all()


def test_queries_for_parts_of_speech_attend_to_them() -> None:
    """The dog ate the cake, with keys that say what a word is, what it does, and nothing."""
    keys = torch.tensor([[0.1, 0, 2], [5, 4, 3], [-4, 0, -3], [-0.2, 0, 1], [5, -3, -4]])
    queries = torch.tensor([[5.0, 0, 0], [-5, 0, 0], [5, 4, 0], [0, 0, 0]])
    scores = torch.tensor([[0.5, 25, -20, -1, 25], [-0.5, -25, 20, 1, -25], [0.5, 41, -20, -1, 13], [0] * 5])
    torch.testing.assert_close(queries @ keys.T, scores)
    weights = attention_weights(queries, keys, scale=1.0)
    expected = torch.tensor([[0, 0.5, 0, 0, 0.5], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0.2] * 5])
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-8)
    values = torch.arange(10.0).view(5, 2)
    torch.testing.assert_close(attention(queries, keys, values, scale=1.0), expected @ values)


def _of_the_past(layer: MultiHeadAttention, weights: dict[str, Tensor], x: Tensor, before: int) -> Tensor:
    output: Tensor = functional_call(layer, weights, (x,), {"causal": True})
    return output[:, :before].square().sum()


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of attention in vmap, says torch
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_future_that_is_not_finite_reaches_nothing_in_torch_func(number: float) -> None:
    """By torch.func.grad, and by vmap of it over single examples, where no value can be looked at."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, heads=2).double()
    weights = {name: value.detach() for name, value in layer.named_parameters()}
    x = some(3, 6, 8)
    spoiled = torch.where(torch.arange(6)[:, None] >= 4, number, x)
    finite = torch.where(torch.arange(6)[:, None] >= 4, 0.0, x)

    def of_weights(rows: Tensor) -> dict[str, Tensor]:
        return torch.func.grad(lambda own: _of_the_past(layer, own, rows, 4))(weights)  # type: ignore[no-any-return]

    def of_one(row: Tensor) -> dict[str, Tensor]:
        return of_weights(row.unsqueeze(0))

    for slopes in (of_weights, torch.func.vmap(of_one)):
        wanted, found = slopes(finite), slopes(spoiled)
        assert all(bool(slope.isfinite().all()) for slope in found.values())
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
        assert any(bool(slope.any()) for slope in found.values())
    by_inputs = torch.func.grad(lambda rows: _of_the_past(layer, weights, rows, 4))(spoiled)
    assert not by_inputs[:, 4:].any()
    assert by_inputs.isfinite().all()


@pytest.mark.slow
def test_a_future_that_is_not_finite_reaches_nothing_in_a_graph() -> None:
    """In a graph that torch.export has taken, and in one for torch.compile."""

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = MultiHeadAttention(8, heads=2)

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.layer(x, causal=True)
            return output

    torch.manual_seed(0)
    model, x = Causal().double(), some(3, 6, 8)
    spoiled = torch.where(torch.arange(6)[:, None] >= 4, math.nan, x)
    exported = torch.export.export(model, (x,)).module()
    compiled = torch.compile(model, backend="eager")
    for graph in (exported, compiled):
        assert torch.equal(graph(x), model(x))
        assert torch.equal(graph(spoiled)[:, :4], model(x)[:, :4])
        assert graph(spoiled)[:, 4:].isnan().all()
