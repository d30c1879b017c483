"""Each law of attention is shown a layer that breaks it; healthy ones, ours and torch's, keep those they should."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.laws import attention as laws
from deepcanon.laws import report
from deepcanon.laws.outcome import Law
from deepcanon.models.attention._transformer import DecodingState
from deepcanon.models.attention.gpt import GPT
from deepcanon.nn.attention import MultiHeadAttention, attention, causal_mask
from deepcanon.nn.kv_cache import KVCache
from deepcanon.nn.linear_attention import LinearAttention, RunningSums
from deepcanon.nn.sparse_attention import LocalAttention

BATCH = Batch(torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0)))


def failed(module: Any, batch: Any = BATCH) -> set[str]:
    torch.manual_seed(0)
    return {outcome.law for outcome in laws.check_attention(module, batch) if not outcome.holds}


def name(law: Law) -> str:
    return str(getattr(law, "__name__", "")).replace("_", " ")


@pytest.mark.parametrize("bias", [True, False])
def test_our_layer_keeps_all_laws(bias: bool) -> None:
    torch.manual_seed(0)
    found = laws.check_attention(MultiHeadAttention(8, heads=2, bias=bias), BATCH)
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == 13


def test_a_gpt_keeps_those_of_models() -> None:
    torch.manual_seed(0)
    found = laws.check_attention(*GPT.example())
    assert all(outcome.holds for outcome in found), report(found)
    assert [outcome.law for outcome in found] == [
        "weights are probabilities",
        "cached decoding is the full forward pass",
    ]


def test_torchs_layer_keeps_all_laws_but_two() -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    # in eval mode it spreads a NaN from a masked position, and gives NaN to a query with all keys masked
    assert failed(layer) == {
        name(laws.masked_positions_change_nothing),
        name(laws.a_fully_masked_query_gets_nothing),
    }


class Layer(nn.Module):
    """A single head with its formula in the open, for faults to be put in."""

    def scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return (q @ k.mT / 8**0.5).masked_fill(~mask, -torch.inf)

    def shares(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1).nan_to_num(0)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        seen = mask.any(-2).unsqueeze(-1)
        return self.shares(self.scores(query, key, mask)) @ torch.where(seen, value, 0)

    def weights(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        return self.shares(self.scores(query, key, mask)).unsqueeze(1)


class MaskIsMultiplied(Layer):
    """Scores times a mask with minus infinity in it, where it must be added."""

    def scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return q @ k.mT / 8**0.5 * torch.where(mask, 1.0, -torch.inf)


class MaskedScoresAreZero(Layer):
    def scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return q @ k.mT / 8**0.5 * mask


class TrueIsHidden(Layer):
    def scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return super().scores(q, k, ~mask)


class LargeNumber(Layer):
    """Minus a billion in place of minus infinity: a row without keys attends to all of them."""

    def scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return (q @ k.mT / 8**0.5).masked_fill(~mask, -1e9)


class BlindRowsAreNaN(Layer):
    def shares(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)


class SharesOfQueries(Layer):
    """The softmax runs over the wrong index."""

    def shares(self, scores: Tensor) -> Tensor:
        return scores.softmax(-2).nan_to_num(0)


class KnowsPlaces(Layer):
    def scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return super().scores(q, k + torch.arange(k.shape[1])[:, None], mask)


class ValuesUncleaned(Layer):
    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return self.shares(self.scores(query, key, mask)) @ value


class TopLeft(MultiHeadAttention):
    """The causal mask aligned with the first key, as torch has it: one query attends to the first key only."""

    def forward(  # type: ignore[override]
        self, query: Tensor, key: Any, value: Any, mask: Any = None, *, causal: bool = False
    ) -> Tensor:
        if causal:
            mask = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).tril()
        return super().forward(query, key, value, mask)


class FutureSpreads(MultiHeadAttention):
    """torch's own causal kernel, in which a weight of zero times NaN is NaN."""

    def forward(  # type: ignore[override]
        self, query: Tensor, key: Any, value: Any, mask: Any = None, *, causal: bool = False
    ) -> Tensor:
        if not causal or query.shape != key.shape:
            return super().forward(query, key, value, mask, causal=causal)
        q, k, v = self._heads(query, key, value)
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return output


class FutureHasGradient(MultiHeadAttention):
    """The values are cleaned only after the projections, whose gradients become zero times NaN."""

    def forward(  # type: ignore[override]
        self, query: Tensor, key: Any, value: Any, mask: Any = None, *, causal: bool = False
    ) -> Tensor:
        q, k, v = self._heads(query, key, value)
        output: Tensor = self.output(attention(q, k, v, mask, causal=causal).transpose(1, 2).flatten(2))
        return output


@pytest.mark.parametrize(
    ("mutant", "caught"),
    [
        (MaskIsMultiplied(), laws.a_query_attends_to_what_its_mask_allows),
        (MaskedScoresAreZero(), laws.a_query_attends_to_what_its_mask_allows),
        (MaskedScoresAreZero(), laws.weights_are_probabilities),
        (TrueIsHidden(), laws.a_query_attends_to_what_its_mask_allows),
        (LargeNumber(), laws.a_fully_masked_query_gets_nothing),
        (BlindRowsAreNaN(), laws.a_fully_masked_query_gets_nothing),
        (SharesOfQueries(), laws.weights_are_probabilities),
        (KnowsPlaces(), laws.order_of_keys_does_not_matter),
        (ValuesUncleaned(), laws.masked_positions_change_nothing),
        (TopLeft(8, heads=2), laws.the_last_query_attends_to_all_keys),
        (FutureSpreads(8, heads=2), laws.the_future_changes_nothing),
        (FutureHasGradient(8, heads=2), laws.the_future_changes_nothing),
    ],
    ids=lambda thing: type(thing).__name__ if isinstance(thing, nn.Module) else name(thing),
)
def test_a_faulty_layer_is_caught(mutant: nn.Module, caught: Law) -> None:
    assert failed(Layer()) == set()
    assert name(caught) in failed(mutant)


class LateByOne(LinearAttention):
    """The running sum before each query, without its own key."""

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool, bias: Any) -> Tensor:
        if causal and q.shape == k.shape:
            k, v = (torch.cat([torch.zeros_like(x[..., :1, :]), x[..., :-1, :]], -2) for x in (k, v))
        return super()._attended(q, k, v, mask, causal, bias)


class OneDenominator(LinearAttention):
    """The numerator is a running sum, the denominator that of all keys."""

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool, bias: Any) -> Tensor:
        found = super()._attended(q, k, v, mask, causal, bias)
        if not causal:
            return found
        scores = self.features(q) @ self.features(k).mT
        return found * scores.tril().sum(-1, keepdim=True) / scores.sum(-1, keepdim=True)


class Signed(LinearAttention):
    """Features below zero, by which weights are negative."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, features=lambda x: x)


class ForgetfulSums(RunningSums):
    """Each part of a text begins with sums of zero."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.sums = None
        return super().attend(q, k, v)


class Forgets(LinearAttention):
    def new_cache(self, capacity: int) -> RunningSums:  # type: ignore[override]
        return ForgetfulSums()


@pytest.mark.parametrize("layer", [LinearAttention(8, heads=2), LocalAttention(8, heads=2, reach=200)])
def test_other_kinds_of_attention_keep_the_laws(layer: nn.Module) -> None:
    assert failed(layer) == set()


@pytest.mark.parametrize(
    ("mutant", "caught"),
    [
        (LateByOne(8, heads=2), laws.causal_attention_is_the_causal_mask),
        (OneDenominator(8, heads=2), laws.causal_attention_is_the_causal_mask),
        (Signed(8, heads=2), laws.weights_are_probabilities),
        (Forgets(8, heads=2), laws.a_layer_reads_on_from_its_cache),
    ],
    ids=lambda thing: type(thing).__name__ if isinstance(thing, nn.Module) else name(thing),
)
def test_faulty_linear_attention_is_caught(mutant: nn.Module, caught: Law) -> None:
    assert name(caught) in failed(mutant)


class ForgetsWhereItIs(GPT):
    """With a memory, positions are counted from each new token."""

    def _embedded(self, x: Tensor, start: int) -> Tensor:
        return super()._embedded(x, 0)


class KeepsPositions(GPT):
    """When the window is full the oldest keys are dropped, but those that stay keep the positions they had."""

    def read(self, tokens: Tensor, state: DecodingState | None) -> tuple[Tensor, DecodingState]:
        if state is not None and state.tokens.shape[1] + tokens.shape[1] > self.length:
            kept = self.length - tokens.shape[1]
            state.tokens = state.tokens[:, -kept:]
            for cache in (each.own for each in state.caches):
                assert isinstance(cache, KVCache)
                assert cache.keys is not None
                assert cache.values is not None
                cache.keys, cache.values = cache.keys.roll(-1, 2), cache.values.roll(-1, 2)
                cache.crop(kept)
        return super().read(tokens, state)


class LooksAhead(GPT):
    def attention_maps(self, x: Tensor) -> Tensor:
        return super().attention_maps(x).mT


def test_faulty_models_are_caught() -> None:
    for mutant in (ForgetsWhereItIs, KeepsPositions):
        torch.manual_seed(0)
        model, batch = mutant.example()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        assert failed(model, batch) == {name(laws.cached_decoding_is_the_full_forward_pass)}, mutant
    assert failed(*LooksAhead.example()) == {name(laws.weights_are_probabilities)}


def test_what_is_not_attention_is_refused() -> None:
    with pytest.raises(UsageError, match="Linear is neither"):
        laws.check_attention(nn.Linear(2, 2), BATCH)
    found = laws.check_attention(Layer(), Batch(torch.zeros(3, 8)))
    assert not any(outcome.holds for outcome in found)
    assert "got torch.Size" in found[0].detail


def test_masks_may_differ_between_examples() -> None:
    layer = MultiHeadAttention(8, heads=2).double()
    x = BATCH.x.double()
    mask = torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    together = laws.attend(layer, x, x, x, mask)
    alone = [laws.attend(layer, x[i : i + 1], x[i : i + 1], x[i : i + 1], mask[i, 0]) for i in range(4)]
    torch.testing.assert_close(together, torch.cat(alone))
    torch.testing.assert_close(laws.attend(layer, x, x, x, causal_mask(6, 6)), layer(x, causal=True))
