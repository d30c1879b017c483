"""The baseline is the model of the catalogue, of the order that validation data choose."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.comparison.baselines.markov_chain import ChosenMarkovChain
from deepcanon.models.autoregressive.markov_chain import MarkovChain


@pytest.mark.parametrize("order", [1, 2])
def test_validation_data_choose_the_order_of_the_source(order: int) -> None:
    """A source in which the token ``order`` steps before, turned round, is most probable."""
    random = np.random.default_rng(order)
    tokens = list(random.integers(0, 3, size=order))
    while len(tokens) < 6000:
        tokens.append((tokens[-order] + 1) % 3 if random.uniform() < 0.8 else random.integers(0, 3))
    rows = torch.from_numpy(np.array(tokens).reshape(-1, 50))
    data = dc.data.of(rows[:100], lengths=50, valid=dc.data.of(rows[100:], lengths=50))
    chain = ChosenMarkovChain.fit(data, seed=0)
    assert chain.choice == f"order {order}"
    entropy = -(0.8 + 0.2 / 3) * np.log(0.8 + 0.2 / 3) - 2 * (0.2 / 3) * np.log(0.2 / 3)
    nats = -chain.step_log_probs(rows[100:])[:, order:].mean()
    assert float(nats) == pytest.approx(entropy, abs=0.08)
    model = MarkovChain.of(rows[:100], torch.full((100,), 50), 3, order)
    torch.testing.assert_close(chain.log_prob(rows[100:]), model.log_prob(rows[100:]))


def test_without_validation_data_it_is_the_longest_that_can_be_counted() -> None:
    rows = torch.arange(40).view(4, 10) % 3
    assert ChosenMarkovChain.fit(dc.data.of(rows, lengths=10), seed=0).choice == "order 6"
    many = torch.tensor([[0, 2**30 - 1, 5, 0, 5]])
    assert ChosenMarkovChain.fit(dc.data.of(many, lengths=5), seed=0).choice == "order 1"
