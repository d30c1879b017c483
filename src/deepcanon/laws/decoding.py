"""The laws of decoding: any module that searches for the most probable continuations of a prompt.

A module is called as ``module(tokens)`` for the logits after each token, its likelihood as ``log_prob(tokens,
lengths=...)``, its searches as ``beam_search(prompt, steps, beams=..., stop=..., length_penalty=...)`` and, if it has
one, ``exact_search(prompt, steps, top=..., stop=..., length_penalty=...)``. Both give ``tokens`` (B, K, T), ``lengths``
and ``log_prob`` (B, K). Here every prefix is read anew, without a cache.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Captioned, SequencePairs, Sequences, UsageError
from deepcanon.laws.conditioned import Given
from deepcanon.laws.continuations import affordable, continuations, until
from deepcanon.laws.discrete import stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import TIGHT, distance, doubled, first, tensors_of

ROWS, BEAMS, TOP = 2, 3, 4
CHANGES = 4
"""Under how many changed weights sequences are looked for: greedy decoding finds the best ones often."""

PENALTY = 1.5


@law
def scores_of_beams_are_log_probs(module: Any, batch: Sequences) -> Measured:
    """The score of each beam is the log-probability of its tokens, computed anew."""
    worst, seen = 0.0, 0
    for model, begin, stop in _changed(module, batch):
        found = model.beam_search(begin, 2 * batch.x.shape[1], beams=BEAMS, stop=stop)
        tokens, lengths = found.tokens.flatten(0, 1), found.lengths.flatten()
        worst, seen = (
            max(worst, distance(model.log_prob(tokens, lengths=lengths), found.log_prob.flatten())),
            len(tokens),
        )
    return worst, TIGHT, f"{seen} beams; scores and log-probabilities differ by up to {worst:.2g} nats"


@law
def cached_search_is_uncached_search(module: Any, batch: Sequences) -> Measured:
    """A beam search that reads one token after the other finds what one finds that reads every prefix from its start.

    Prompts have two tokens, so that a state after several tokens is continued, too.
    """
    faults, worst = 0, 0.0
    steps = batch.x.shape[1] + 2
    for model, begin, stop in islice(_changed(module, batch), 2):
        prompt = torch.cat([begin, batch.x[: len(begin), 1:2]], 1)
        found = model.beam_search(prompt, steps, beams=BEAMS, stop=stop)
        for row, given in enumerate(prompt.tolist()):
            wanted = _uncached(model, given, steps, stop)
            rows = [tokens[:end] for tokens, end in zip(found.tokens[row].tolist(), found.lengths[row], strict=True)]
            faults += rows != [tokens for _, tokens in wanted]
            worst = max(
                worst, distance(found.log_prob[row], torch.tensor([score for score, _ in wanted], dtype=torch.double))
            )
    words = f"{faults} prompts with other beams; scores differ by up to {worst:.2g} nats"
    return faults + worst, TIGHT, words


@law
def a_full_width_beam_is_exact(module: Any, batch: Sequences) -> Measured:
    """With as many beams as there are sequences, the beams are all sequences in the order of their probability."""
    return _against_enumeration(
        module, batch, lambda model, begin, steps, stop, count, penalty: model.beam_search(
            begin, steps, beams=count, stop=stop, length_penalty=penalty)
    )  # fmt: skip


@law
def an_exact_search_misses_nothing(module: Any, batch: Sequences) -> Measured | None:
    """The sequences that ``exact_search`` finds are the most probable of all, in their order."""
    if not hasattr(module, "exact_search"):
        return None
    return _against_enumeration(
        module, batch, lambda model, begin, steps, stop, count, penalty: model.exact_search(
            begin, steps, top=TOP, stop=stop, length_penalty=penalty)
    )  # fmt: skip


@law
def one_beam_is_greedy(module: Any, batch: Sequences) -> Measured | None:
    """A search with one beam finds what ``generate`` writes at temperature 0."""
    if not hasattr(module, "generate"):
        return None
    faults, seen = 0, 0
    steps = 2 * batch.x.shape[1]
    for model, begin, stop in _changed(module, batch):
        found = model.beam_search(begin, steps, beams=1, stop=stop)
        greedy = model.generate(begin, steps, temperature=0, stop=stop)
        for tokens, end, made in zip(found.tokens[:, 0], found.lengths[:, 0].tolist(), greedy, strict=True):
            faults, seen = faults + (not torch.equal(tokens[:end], made[:end])), seen + 1
    return faults, 0, f"{faults} of {seen} prompts are continued otherwise"


LAWS = (
    scores_of_beams_are_log_probs,
    cached_search_is_uncached_search,
    a_full_width_beam_is_exact,
    an_exact_search_misses_nothing,
    one_beam_is_greedy,
)


def check_decoding(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of decoding in any module with ``beam_search``; of a translator, given a source."""
    if not callable(getattr(module, "beam_search", None)):
        raise UsageError("a model that searches has beam_search")
    if isinstance(batch, SequencePairs | Captioned):
        module, batch = Given(module, batch), Sequences(batch.y, batch.y_lengths)
    if not isinstance(batch, Sequences):
        raise UsageError(f"the laws of decoding are checked on sequences of tokens, not on {batch.noun}")
    return outcomes(LAWS, module, batch)


def _changed(module: Any, batch: Sequences) -> Iterator[tuple[Any, Tensor, int]]:
    """The module under several changed weights, first tokens (B, 1), and a token at which a sequence is complete."""
    model, few = doubled(module, first(batch, ROWS))
    for _ in range(CHANGES):
        changed: Any = stirred(copy.deepcopy(model))
        with torch.no_grad():
            vocab = tensors_of(changed(few.x))[0].shape[-1]
            yield changed, few.x[:, :1], getattr(model, "end_token", vocab - 1)


def _against_enumeration(module: Any, batch: Sequences, search: Any) -> Measured:
    """By how much sequences that are found differ in their score from the best that can be written out."""
    worst, count = 0.0, 0
    for model, begin, stop in _changed(module, batch):
        vocab = tensors_of(model(begin))[0].shape[-1]
        steps = min(3, affordable(vocab, 3))
        every, lengths = until(continuations(vocab, steps, int(begin[0])), stop)
        count = len(every)
        log_p = model.log_prob(every, lengths=lengths)
        for penalty in (0.0, PENALTY):
            found = search(model, begin[:1], steps, stop, count, penalty)
            tokens, ends = found.tokens[0], found.lengths[0]
            there = found.log_prob[0] > -torch.inf
            recomputed = model.log_prob(tokens[there], lengths=ends[there])
            scores = _penalized(recomputed, ends[there], penalty)
            best = _penalized(log_p, lengths, penalty).sort(descending=True).values[: len(scores)]
            missing = min(count, found.tokens.shape[1]) - len(scores)
            worst = max(worst, missing, distance(scores, best), distance(recomputed, found.log_prob[0][there]))
    return worst, TIGHT, f"of {count} sequences, scores are off by up to {worst:.2g} from those of the best ones"


def _penalized(log_p: Tensor, lengths: Tensor, penalty: float) -> Tensor:
    """The score by which sequences are ranked; the first token is the prompt."""
    return log_p / ((5 + lengths - 1) / 6) ** penalty


def _uncached(model: Any, prompt: list[int], steps: int, stop: int) -> list[tuple[float, list[int]]]:
    """The beams that a search keeps which reads every prefix from its start, the best first."""
    kept = [(0.0, prompt)]
    for _ in range(steps):
        grown = []
        for score, tokens in kept:
            if len(tokens) > len(prompt) and tokens[-1] == stop:
                grown.append((score, tokens))
                continue
            log_p = tensors_of(model(torch.tensor([tokens])))[0][0, -1].log_softmax(-1)
            grown += [(score + each, [*tokens, token]) for token, each in enumerate(log_p.tolist())]
        kept = sorted(grown, key=lambda each: -each[0])[:BEAMS]
    return kept
