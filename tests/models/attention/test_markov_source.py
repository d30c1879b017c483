"""Models that continue a text learn a Markov source: their perplexity is that of the source within a percent."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import SequencePairs, Sequences
from deepcanon.models.attention.gpt import GPT
from deepcanon.models.attention.prefix_lm import PrefixLM
from deepcanon.models.autoregressive.markov_chain import MarkovChain

VOCAB, ROWS, LENGTH = 4, 3000, 17
BEGIN, END = VOCAB, VOCAB + 1


def source(seed: int) -> tuple[Tensor, Tensor]:
    """Rows of a random chain of first order, (ROWS, LENGTH), and the nats of each token but the first."""
    chances = torch.softmax(2 * torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(0)), 1).double()
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(VOCAB, (ROWS,), generator=generator)]
    for _ in range(LENGTH - 1):
        rows.append(torch.multinomial(chances[rows[-1]], 1, generator=generator).squeeze(1))
    x = torch.stack(rows, 1)
    return x, -chances[x[:, :-1], x[:, 1:]].log()


def as_text(x: Tensor) -> Sequences:
    return Sequences(x, torch.full((len(x),), LENGTH))


def as_pairs(x: Tensor, half: int = 6) -> SequencePairs:
    """A prefix and what follows it, between begin and end tokens; all have one length, so that the end is certain."""
    begin, end = (torch.full((len(x), 1), token) for token in (BEGIN, END))
    y = torch.cat([begin, x[:, half:], end], 1)
    return SequencePairs(x[:, :half], torch.full((len(x),), half), y, torch.full((len(x),), y.shape[1]))


def perplexity(model: Any, train: Any, test: Any, tokens: int) -> float:
    """The perplexity per token of the source; of pairs, the end token is one more, which costs nothing."""
    data: Any = dc.data.Dataset("source", "text" if isinstance(train, Sequences) else "pairs", train)
    dc.fit(model, data, steps=220, batch_size=100, lr=1e-2, schedule="cosine:warmup=20", quiet=True)
    return math.exp(dc.evaluate(model, test)["nll"] * test.weight / (len(test) * tokens))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt", "gpt, linear", "gpt, local", "prefix_lm"])
def test_the_perplexity_is_that_of_the_source_within_a_percent(name: str) -> None:
    (seen, _), (new, nats) = source(1), source(2)
    torch.manual_seed(0)
    if name.startswith("gpt"):
        kinds: dict[str, Any] = {"linear": {"attention": "linear"}, "local": {"attention": "local", "reach": 2}}
        model: Any = GPT(VOCAB, LENGTH - 1, layers=1, heads=2, embedding=16, **kinds.get(name[5:], {}))
        found, wanted = perplexity(model, as_text(seen), as_text(new), LENGTH - 1), nats.mean().exp()
    else:
        model = PrefixLM(VOCAB + 2, VOCAB + 2, BEGIN, END, layers=1, heads=2, embedding=32)
        found, wanted = perplexity(model, as_pairs(seen), as_pairs(new), LENGTH - 6), nats[:, 5:].mean().exp()
    assert wanted < 3.5  # of four tokens: there is something to learn
    assert found == pytest.approx(float(wanted), rel=0.01)


def test_a_chain_of_counts_is_the_source_within_a_percent() -> None:
    (seen, _), (new, nats) = source(1), source(2)
    model = MarkovChain(VOCAB, order=1)
    data: Any = dc.data.Dataset("source", "text", as_text(seen))
    dc.fit(model, data, quiet=True)
    assert math.exp(dc.evaluate(model, as_text(new))["nll"]) == pytest.approx(float(nats.mean().exp()), rel=0.01)
