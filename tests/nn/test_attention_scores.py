"""Scores are their formulas, weights follow from them, and both are those of peers where these have them."""

from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from deepcanon.core import UsageError
from deepcanon.nn.attention import MultiHeadAttention, attention, attention_weights
from deepcanon.nn.attention_scores import AttentionScore, ScoreKind, weigh
from deepcanon.nn.kv_cache import KVCache

KEYS = torch.tensor([[0.1, 0, 2], [5, 4, 3], [-4, 0, -3], [-0.2, 0, 1], [5, -3, -4]])
"""Of the words of "The dog ate the cake": a thing or an action, subject or object, and something random."""

TABLE = [
    ((5, 0, 0), (0.5, 25, -20, -1, 25), (0, 0.5, 0, 0, 0.5)),  # things
    ((-5, 0, 0), (-0.5, -25, 20, 1, -25), (0, 0, 1, 0, 0)),  # actions
    ((5, 4, 0), (0.5, 41, -20, -1, 13), (0, 1, 0, 0, 0)),  # subjects
    ((0, 0, 0), (0, 0, 0, 0, 0), (0.2, 0.2, 0.2, 0.2, 0.2)),  # all words alike
]
"""Queries with the printed scores and weights of dot-product attention."""


@pytest.mark.parametrize(("query", "scores", "weights"), TABLE)
def test_the_printed_table_of_queries(
    query: tuple[float, ...], scores: tuple[float, ...], weights: tuple[float, ...]
) -> None:
    asked, printed, shares = (torch.tensor([row], dtype=torch.float) for row in (query, scores, weights))
    found = AttentionScore("dot", 3)(asked, KEYS)
    torch.testing.assert_close(found, printed)
    torch.testing.assert_close(weigh(found).round(decimals=2), shares)
    torch.testing.assert_close(attention(asked, KEYS, torch.eye(5), scale=1).round(decimals=2), shares)
    assert torch.equal(weigh(found, how="hard"), functional.one_hot(printed.argmax(1), 5).float())
    torch.testing.assert_close(attention(asked, KEYS, KEYS, scale=1, how="linear"), printed @ KEYS)


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(2, n, 4, generator=generator, dtype=torch.double) for n in (3, 5))  # type: ignore[return-value]


def made(kind: ScoreKind, **sizes: int) -> AttentionScore:
    torch.manual_seed(1)
    return AttentionScore(kind, 4, **sizes).double()


def test_each_score_is_the_formula_of_its_name() -> None:
    query, key = inputs()
    pairs = query.unsqueeze(2).expand(2, 3, 5, 4), key.unsqueeze(1).expand(2, 3, 5, 4)
    dot = (pairs[0] * pairs[1]).sum(-1)
    torch.testing.assert_close(made("dot")(query, key), dot)
    torch.testing.assert_close(made("scaled")(query, key), dot / 2)
    torch.testing.assert_close(made("cosine")(query, key), functional.cosine_similarity(*pairs, dim=-1))
    general = made("general")
    bilinear = torch.einsum("btsi,ij,btsj->bts", pairs[0], general.key.weight, pairs[1])
    torch.testing.assert_close(general(query, key), bilinear)
    low = made("low_rank", hidden=2)
    general.key.weight.data = low.query.weight.T @ low.key.weight  # U' V, of rank 2
    torch.testing.assert_close(low(query, key), general(query, key))
    additive = made("additive", hidden=3)
    one = (
        additive.align.weight[0]
        @ (additive.query.weight @ query[1, 2] + additive.key.weight @ key[1, 4] + additive.key.bias).tanh()
    )
    torch.testing.assert_close(additive(query, key)[1, 2, 4], one)
    counts = [sum(each.numel() for each in score.parameters()) for score in (made("dot"), general, low, additive)]
    assert counts == [0, 16, 2 * (4 + 4), 3 * (4 + 4 + 2)]


@pytest.mark.parametrize("kind", get_args(ScoreKind))
def test_keys_that_are_prepared_once_give_the_same_scores(kind: ScoreKind) -> None:
    score, (query, key) = made(kind), inputs()
    ready = score.keys(key)
    found = torch.cat([score.scores(query[:, t : t + 1], ready) for t in range(3)], 1)
    torch.testing.assert_close(found, score(query, key))
    assert torch.isfinite(score(torch.zeros_like(query), key)).all()


def test_other_widths_take_a_score_with_weights() -> None:
    query, key = inputs()
    for kind in ("general", "low_rank", "additive"):
        assert AttentionScore(kind, 4, 2).double()(query, key[..., :2]).shape == (2, 3, 5)
    with pytest.raises(UsageError, match="the dot score compares queries and keys of equal width, not of 4 and 2"):
        AttentionScore("dot", 4, 2)
    with pytest.raises(UsageError, match="the general score has no hidden layer"):
        AttentionScore("general", 4, hidden=3)
    with pytest.raises(UsageError, match="kind"):
        AttentionScore("cosin", 4)  # type: ignore[arg-type]


MASK = torch.tensor([[True, True, False, True, True], [False] * 5, [False, False, True, False, False]])


def test_masked_keys_have_no_weight() -> None:
    scores = torch.tensor([[1.0, 2, 9, 3, 3], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]], requires_grad=True)
    soft, hard, linear = (weigh(scores, MASK, how) for how in ("soft", "hard", "linear"))
    torch.testing.assert_close(soft[0, MASK[0]], scores[0, MASK[0]].softmax(0))
    assert hard.tolist() == [[0, 0, 0, 1, 0], [0] * 5, [0, 0, 1, 0, 0]]
    assert linear.tolist() == [[1, 2, 0, 3, 3], [0] * 5, [0, 0, 3, 0, 0]]
    for weights in (soft, hard, linear):
        assert not bool(weights[~MASK].any())
        (gradient,) = torch.autograd.grad((weights * torch.arange(5.0)).sum(), scores)
        assert torch.isfinite(gradient).all()
        assert not bool(gradient[~MASK].any())
    with pytest.raises(UsageError, match="a mask is boolean"):
        weigh(scores, MASK.float())


def test_the_gradient_of_hard_weights_is_that_of_soft_ones() -> None:
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.double, requires_grad=True)
    value = torch.arange(5.0, dtype=torch.double)
    gradients = [torch.autograd.grad((weigh(scores, how=how) @ value).sum(), scores)[0] for how in ("soft", "hard")]
    assert torch.equal(*gradients)
    assert bool(gradients[0].any())


@pytest.mark.parametrize("kind", get_args(ScoreKind))
@pytest.mark.parametrize("how", ["soft", "hard", "linear"])
def test_multi_head_attention_takes_any_score(kind: ScoreKind, how: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, score=kind, how=how).double().eval()  # type: ignore[arg-type]
    x = torch.randn(2, 5, 8, dtype=torch.double)
    weights = layer.weights(x, causal=True)
    values = layer._of_heads(2, x)
    torch.testing.assert_close(layer(x, causal=True), layer._joined(weights @ values))
    q, k = layer._of_heads(0, x), layer._of_heads(1, x)
    score = layer.score or AttentionScore("scaled", 4)
    torch.testing.assert_close(weights, weigh(score(q, k), torch.ones(5, 5).tril().bool(), how))  # type: ignore[arg-type]
    cache = KVCache(5)
    steps = [layer(x[:, t : t + 1], causal=True, cache=cache) for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), layer(x, causal=True))
    spoiled = x.clone()
    spoiled[:, 4] = torch.nan
    torch.testing.assert_close(layer(spoiled, causal=True)[:, :4], layer(x, causal=True)[:, :4])


def test_a_scale_is_that_of_dot_products() -> None:
    query, key = inputs()
    with pytest.raises(UsageError, match="the cosine score has none"):
        attention_weights(query, key, scale=2.0, score=made("cosine"))
