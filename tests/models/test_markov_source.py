"""Every language model learns a Markov source: its perplexity is that of the source within a percent."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

import deepcanon as dc
from deepcanon.catalogue import entries
from deepcanon.core import Captioned, SequencePairs, Sequences, given_batch
from deepcanon.models._language_model import LanguageModel

VOCAB, ROWS, LENGTH, GIVEN = 4, 4000, 17, 5
BEGIN, END = VOCAB, VOCAB + 1
IMAGE = (1, 8, 8)
SOURCE, TARGET = {"vocab": VOCAB}, {"target_vocab": VOCAB + 2, "begin_token": BEGIN, "end_token": END}

RECURRENT = {"embedding": 8, "units": 32}
ATTENTION = {"layers": 2, "heads": 2, "embedding": 32}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("rnn", RECURRENT),
    "gru": ("gru", RECURRENT),
    "lstm": ("lstm", RECURRENT),
    "gpt": ("gpt", {"length": LENGTH - 1, **ATTENTION}),
    "gpt, linear": ("gpt", {"length": LENGTH - 1, **ATTENTION, "attention": "linear"}),
    "gpt, local": ("gpt", {"length": LENGTH - 1, **ATTENTION, "attention": "local", "reach": 2}),
    "wavenet": ("wavenet", {"channels": 16, "skip": 16, "layers": 2}),
    "markov_chain": ("markov_chain", {"order": 2}),
    "seq2seq": ("seq2seq", {"embedding": 8, "units": 32}),
    "seq2seq_attention": ("seq2seq_attention", {"embedding": 8, "units": 32}),
    "transformer": ("transformer", ATTENTION),
    "t5": ("t5", ATTENTION),
    "prefix_lm": ("prefix_lm", ATTENTION),
    "caption": ("caption", {"channels": 1, "height": 8, "width": 8}),
}


def source(seed: int) -> tuple[Tensor, Tensor]:
    """Rows of a random chain of second order, (ROWS, LENGTH), and the nats of each token but the first two."""
    odds = 2 * torch.randn(VOCAB, VOCAB, VOCAB, generator=torch.Generator().manual_seed(0))
    chances = torch.softmax(odds, 2).double()
    generator = torch.Generator().manual_seed(seed)
    rows = list(torch.randint(VOCAB, (2, ROWS), generator=generator))
    for _ in range(LENGTH - 2):
        rows.append(torch.multinomial(chances[rows[-2], rows[-1]], 1, generator=generator).squeeze(1))
    x = torch.stack(rows, 1)
    return x, -chances[x[:, :-2], x[:, 1:-1]].gather(2, x[:, 2:, None]).log().squeeze(2)


def as_batch(name: str, x: Tensor) -> Any:
    """The rows as the model takes them: alone, as a prefix and what follows it, or as captions of black images.

    A target stands between a begin and an end token. All have one length, so that the end is certain.
    """
    kind = type(dc.find(name).example()[1])
    if kind is Sequences:
        return Sequences(x, torch.full((len(x),), LENGTH))
    given = GIVEN if kind is SequencePairs else 0
    y = pad(pad(x[:, given:], (1, 0), value=BEGIN), (0, 1), value=END)
    lengths = torch.full((len(x),), y.shape[1])
    if given:
        return SequencePairs(x[:, :given], torch.full((len(x),), given), y, lengths)
    return Captioned(torch.zeros(len(x), *IMAGE), y, lengths)


def nats_of(model: Any, batch: Any, tokens: int) -> Tensor:
    """The nats of the last so many tokens of each row, without its end token."""
    rows = -given_batch(model, batch).step_log_probs(batch.x if isinstance(batch, Sequences) else batch.y)
    rows = rows if isinstance(batch, Sequences) else rows[:, :-1]
    return rows[:, -tokens:]


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_the_perplexity_is_that_of_the_source_within_a_percent(case: str) -> None:
    (seen, _), (new, nats) = source(1), source(2)
    name, arguments = MODELS[case]
    train, test = as_batch(name, seen), as_batch(name, new)
    sizes = {"vocab": VOCAB} if isinstance(train, Sequences) else TARGET | ({} if name == "caption" else SOURCE)
    torch.manual_seed(0)
    model: Any = dc.find(name)(**sizes, **arguments)
    data: Any = dc.data.Dataset("source", "text" if isinstance(train, Sequences) else "pairs", train)
    dc.fit(model, data, steps=250, batch_size=100, lr=1e-2, schedule="cosine:warmup=20", quiet=True, evaluate=False)
    nats = nats[:, -(LENGTH - GIVEN) :] if isinstance(train, SequencePairs) else nats
    with torch.no_grad():
        found = nats_of(model.eval(), test, nats.shape[1])
    assert found.shape == nats.shape
    assert nats.mean().exp() < 2.5  # of four tokens: there is something to learn
    assert math.exp(found.mean()) == pytest.approx(math.exp(nats.mean()), rel=0.01)
    gained = (nats - found).mean(1)  # by chance alone: no model is better than the source itself
    assert gained.mean() < 5 * gained.std() / ROWS**0.5


def test_every_language_model_of_the_catalogue_is_tried() -> None:
    every = {entry.name for entry in entries() if issubclass(dc.find(entry.name), LanguageModel)}
    assert every == {name for name, _ in MODELS.values()}
