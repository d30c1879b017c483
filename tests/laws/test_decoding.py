"""Each law of decoding is shown a model that breaks it; healthy ones keep them all."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.decoding.beam import Beams
from deepcanon.laws import check, report
from deepcanon.laws import decoding as laws
from deepcanon.laws.outcome import Law
from deepcanon.models.attention.gpt import GPT
from deepcanon.models.recurrent.lstm import LSTM
from deepcanon.models.recurrent.seq2seq import Seq2Seq


@pytest.mark.slow
def test_healthy_models_keep_the_laws() -> None:
    for model in (LSTM, Seq2Seq):
        found = check(model, "decoding")
        assert all(outcome.holds for outcome in found), report(found)
        assert len(found) == len(laws.LAWS)


def fails(law: Law, model: Any) -> bool:
    torch.manual_seed(0)
    found = law(*model.example())
    assert found is not None
    return not found.holds


class Unordered(LSTM):
    """The states stay where they were when the beams are reordered."""

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs, after = super().read(tokens, state)
        return outputs, _Kept(after)


class _Kept(tuple[Tensor, ...]):
    def select(self, rows: Tensor) -> Any:
        return _Kept(part.index_select(1, torch.arange(len(rows)) % part.shape[1]) for part in self)


class StaleCache(GPT):
    """The cache is not reordered, the tokens are, as once in a well-known library."""

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs, after = super().read(tokens, state)
        for cache in after.caches:
            cache.__dict__["select"] = partial(_in_place, cache)
        return outputs, after


def _in_place(cache: Any, rows: Tensor) -> Any:
    return type(cache).select(cache, torch.arange(len(rows)) % len(cache.own.keys))


class MovesTokensOnly(GPT):
    """Where beams are only reordered, the cache stays as it is."""

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs, after = super().read(tokens, state)
        for cache in after.caches:
            cache.own.__dict__["reorder"] = lambda rows, start: None
        return outputs, after


@pytest.mark.slow
def test_states_that_are_not_reordered_are_caught() -> None:
    for mutant in (Unordered, StaleCache, MovesTokensOnly):
        for law in (laws.scores_of_beams_are_log_probs, laws.cached_search_is_uncached_search):
            assert fails(law, mutant), (law, mutant)
    assert fails(laws.a_full_width_beam_is_exact, Unordered)


class ForgetsThePrompt(LSTM):
    """Of a prompt only the last token is read."""

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return super().read(tokens[:, -1:] if state is None and not torch.is_grad_enabled() else tokens, state)

    def outputs(self, tokens: Tensor) -> Tensor:
        return LSTM.read(self, tokens, None)[0]


def test_a_cache_that_is_begun_wrongly_is_caught() -> None:
    assert fails(laws.cached_search_is_uncached_search, ForgetsThePrompt)


class NormalizedScores(LSTM):
    """Scores are nats per token."""

    def beam_search(self, *inputs: Any, **options: Any) -> Beams:
        found = super().beam_search(*inputs, **options)
        return replace(found, log_prob=found.log_prob / found.lengths)


class GoesOnAfterTheEnd(LSTM):
    """What is complete is continued, and its probability falls."""

    def beam_search(self, prompt: Tensor, steps: int, *, stop: int | None = None, **options: Any) -> Beams:
        options.pop("length_penalty", None)
        found = super().beam_search(prompt, steps, **options)
        after = found.tokens[:, :, prompt.shape[1] :]
        return replace(
            found,
            lengths=prompt.shape[1]
            + (after.ne(-1 if stop is None else stop).long().cumprod(2).sum(2) + 1).clamp_max(steps),
        )


def test_scores_that_are_not_log_probabilities_are_caught() -> None:
    for mutant in (NormalizedScores, GoesOnAfterTheEnd):
        assert fails(laws.scores_of_beams_are_log_probs, mutant), mutant


class IgnoresThePenalty(LSTM):
    def beam_search(self, *inputs: Any, length_penalty: float = 0.0, **options: Any) -> Beams:
        return super().beam_search(*inputs, **options)


class AlwaysNarrow(LSTM):
    """The number of beams is capped."""

    def beam_search(self, *inputs: Any, beams: int = 4, **options: Any) -> Beams:
        return super().beam_search(*inputs, beams=min(beams, 2), **options)


class OnlyABeam(LSTM):
    """What is called exact is a beam search."""

    def exact_search(self, *inputs: Any, top: int = 1, **options: Any) -> Beams:
        return super().beam_search(*inputs, beams=top, **options)


class PrunesTooMuch(LSTM):
    """Two of the best sequences are lost."""

    def exact_search(self, *inputs: Any, top: int = 1, **options: Any) -> Beams:
        found = super().exact_search(*inputs, top=top + 2, **options)
        return Beams(found.tokens[:, 2:], found.lengths[:, 2:], found.log_prob[:, 2:])


def test_searches_that_miss_something_are_caught() -> None:
    for mutant in (IgnoresThePenalty, AlwaysNarrow):
        assert fails(laws.a_full_width_beam_is_exact, mutant), mutant
    for other in (OnlyABeam, PrunesTooMuch):
        assert fails(laws.an_exact_search_misses_nothing, other), other


class SamplesWithOneBeam(LSTM):
    def generate(self, *inputs: Any, temperature: float = 1.0, **options: Any) -> Tensor:
        return super().generate(*inputs, temperature=1.0, **options)


def test_one_beam_that_is_not_greedy_is_caught() -> None:
    assert fails(laws.one_beam_is_greedy, SamplesWithOneBeam)


def test_the_kind_needs_tokens_and_a_search() -> None:
    with pytest.raises(UsageError, match="has beam_search"):
        laws.check_decoding(nn.Identity(), Batch(torch.zeros(2, 2)))
    with pytest.raises(UsageError, match="are checked on sequences of tokens"):
        laws.check_decoding(LSTM(3), Batch(torch.zeros(2, 2)))
