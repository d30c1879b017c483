"""The Markov chain: a distribution by enumeration, counts by hand, and the order that validation data choose."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.comparison.baselines.markov_chain import MarkovChain
from deepcanon.core import DataError
from deepcanon.data import Dataset


def sequences(rows: Any, valid: Any = None) -> Dataset[Any]:
    def data(given: Any) -> Dataset[Any]:
        return dc.data.of(torch.tensor(given), lengths=torch.tensor([len(row) for row in given]))

    return data(rows) if valid is None else dc.data.of(torch.tensor(rows), lengths=len(rows[0]), valid=data(valid))


@pytest.mark.parametrize("order", range(4))
def test_the_probabilities_of_all_sequences_sum_to_one(order: int) -> None:
    """Given the first token, whatever was seen; known and unknown contexts are both among them."""
    rows = torch.tensor([[0, 1, 2, 0, 1, 1], [2, 2, 0, 1, 2, 0]])
    chain = MarkovChain(rows, torch.tensor([6, 4]), vocab=3, order=order)
    every = torch.tensor([[1, *rest] for rest in product(range(3), repeat=4)])
    assert float(chain.log_prob(every).exp().sum()) == pytest.approx(1, abs=1e-12)


def test_the_smoothing_is_that_of_witten_and_bell() -> None:
    """In abab the token b follows a twice and nothing else does: by hand."""
    chain = MarkovChain(torch.tensor([[0, 1, 0, 1]]), torch.tensor([4]), vocab=2, order=1)
    unigram = (2 + 2 * 0.5) / (4 + 2)
    after_a = {1: (2 + 1 * unigram) / (2 + 1), 0: (0 + 1 * unigram) / (2 + 1)}
    found = chain.step_log_probs(torch.tensor([[0, 1], [0, 0]])).exp()
    assert found[:, 1].tolist() == pytest.approx([after_a[1], after_a[0]])
    assert found[:, 0].tolist() == [1, 1]  # the first token is given


def test_padding_is_never_read_and_unknown_tokens_are_refused() -> None:
    rows = torch.tensor([[0, 1, 0, -9], [1, 1, 0, 1]])
    lengths = torch.tensor([3, 4])
    chain = MarkovChain(rows, lengths, vocab=2, order=2)
    other = MarkovChain(torch.tensor([[0, 1, 0, 1], [1, 1, 0, 1]]), lengths, vocab=2, order=2)
    found = chain.step_log_probs(rows, lengths=lengths)
    assert torch.equal(found, other.step_log_probs(rows, lengths=lengths))
    assert found[0, 3] == 0
    padded = MarkovChain(torch.tensor([[0, 1, 1, 0, 0]]), torch.tensor([3]), vocab=2, order=1)
    short = MarkovChain(torch.tensor([[0, 1, 1]]), torch.tensor([3]), vocab=2, order=1)
    assert torch.equal(padded.log_prob(rows[1:]), short.log_prob(rows[1:]))
    with pytest.raises(DataError, match="from 0 to 1"):
        chain.step_log_probs(torch.tensor([[0, 7]]))


@pytest.mark.parametrize("order", [1, 2])
def test_validation_data_choose_the_order_of_the_source(order: int) -> None:
    """A source in which the token ``order`` steps before, turned round, is most probable."""
    random = np.random.default_rng(order)
    tokens = list(random.integers(0, 3, size=order))
    while len(tokens) < 6000:
        tokens.append((tokens[-order] + 1) % 3 if random.uniform() < 0.8 else random.integers(0, 3))
    rows = np.array(tokens).reshape(-1, 50)
    data = dc.data.of(
        torch.from_numpy(rows[:100]), lengths=50, valid=dc.data.of(torch.from_numpy(rows[100:]), lengths=50)
    )
    chain = MarkovChain.fit(data, seed=0)
    assert chain.choice == f"order {order}"
    entropy = -(0.8 + 0.2 / 3) * np.log(0.8 + 0.2 / 3) - 2 * (0.2 / 3) * np.log(0.2 / 3)
    nats = -chain.step_log_probs(torch.from_numpy(rows[100:]))[:, order:].mean()
    assert float(nats) == pytest.approx(entropy, abs=0.08)
