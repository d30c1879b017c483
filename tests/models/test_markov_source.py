"""Every language model learns a Markov source: its perplexity is that of the source within a percent."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

import deepcanon as dc
from deepcanon.catalogue import entries
from deepcanon.core import Conditional, SequencePairs, Sequences
from deepcanon.models._language_model import LanguageModel

VOCAB, ROWS, LENGTH, GIVEN = 4, 4000, 17, 6
BEGIN, END = VOCAB, VOCAB + 1

RECURRENT = {"embedding": 8, "units": 32}
GPT = {"length": LENGTH - 1, "layers": 1, "heads": 2, "embedding": 16}
PREFIX = {"target_vocab": VOCAB + 2, "begin_token": BEGIN, "end_token": END}
MODELS: dict[str, tuple[str, int, dict[str, Any]]] = {  # the model, the order of the source, the arguments
    "rnn": ("rnn", 2, RECURRENT),
    "gru": ("gru", 2, RECURRENT),
    "lstm": ("lstm", 2, RECURRENT),
    "wavenet": ("wavenet", 2, {"channels": 16, "skip": 16, "layers": 2}),
    "markov_chain": ("markov_chain", 2, {"order": 2}),
    "gpt": ("gpt", 1, GPT),
    "gpt, linear": ("gpt", 1, {**GPT, "attention": "linear"}),
    "gpt, local": ("gpt", 1, {**GPT, "attention": "local", "reach": 2}),
    "prefix_lm": ("prefix_lm", 1, {**PREFIX, "layers": 1, "heads": 2, "embedding": 32}),
}


def source(order: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows of a random chain, (ROWS, LENGTH), and the nats of each token but the first ones, which are as many."""
    drawn = torch.randn(*[VOCAB] * (order + 1), generator=torch.Generator().manual_seed(0))
    chances = torch.softmax(2 * drawn, -1).double()
    generator = torch.Generator().manual_seed(seed)
    rows = list(torch.randint(VOCAB, (order, ROWS), generator=generator))
    nats = []
    for _ in range(LENGTH - order):
        given = chances[tuple(rows[-order:])]
        rows.append(torch.multinomial(given, 1, generator=generator).squeeze(1))
        nats.append(-given.gather(1, rows[-1].unsqueeze(1)).squeeze(1).log())
    return torch.stack(rows, 1), torch.stack(nats, 1)


def as_pairs(x: Tensor) -> SequencePairs:
    """A prefix and what follows it, between begin and end tokens; all have one length, so that the end is certain."""
    y = pad(pad(x[:, GIVEN:], (1, 0), value=BEGIN), (0, 1), value=END)
    return SequencePairs(x[:, :GIVEN], torch.full((ROWS,), GIVEN), y, torch.full((ROWS,), y.shape[1]))


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_the_perplexity_is_that_of_the_source_within_a_percent(case: str) -> None:
    name, order, arguments = MODELS[case]
    (seen, _), (new, nats) = source(order, 1), source(order, 2)
    torch.manual_seed(0)
    model: Any = dc.find(name)(vocab=VOCAB, **arguments)
    pairs = name == "prefix_lm"
    train = as_pairs(seen) if pairs else Sequences(seen, torch.full((ROWS,), LENGTH))
    data: Any = dc.data.Dataset("source", "pairs" if pairs else "text", train)
    dc.fit(model, data, steps=300, batch_size=100, lr=1e-2, schedule="cosine:warmup=20", quiet=True, evaluate=False)
    with torch.no_grad():
        if pairs:
            test = as_pairs(new)
            found = -model.eval().given((test.x, test.lengths)).step_log_probs(test.y)[:, 1:-1]
        else:
            found = -model.eval().step_log_probs(new)[:, order:]
    nats = nats[:, -found.shape[1] :]
    perplexity = math.exp(nats.mean())
    assert perplexity < 3.5  # of four tokens: there is something to learn
    assert math.exp(found.mean()) == pytest.approx(perplexity, rel=0.01)
    gained = (nats - found).mean(1)
    assert gained.mean() < 5 * gained.std() / ROWS**0.5  # no model is better than the source but by chance


def test_the_nats_of_the_source_are_those_of_its_frequencies() -> None:
    x, nats = source(1, 3)
    counts = torch.tensor(
        [[int(((x[:, :-1] == a) & (x[:, 1:] == b)).sum()) for b in range(VOCAB)] for a in range(VOCAB)]
    )
    rates = counts / counts.sum(1, keepdim=True)
    for a, b in product(range(VOCAB), repeat=2):
        found = nats[(x[:, :-1] == a) & (x[:, 1:] == b)]
        assert found.std() < 1e-12
        assert math.exp(-found[0]) == pytest.approx(float(rates[a, b]), abs=0.015)


def test_every_language_model_of_the_catalogue_is_tried() -> None:
    """And prefix_lm, which reads its context as a part of the text; other conditional models translate."""
    kinds: dict[str, type] = {entry.name: dc.find(entry.name) for entry in entries()}
    every = {name for name, cls in kinds.items() if issubclass(cls, LanguageModel) and not issubclass(cls, Conditional)}
    assert every | {"prefix_lm"} == {name for name, _, _ in MODELS.values()}
