"""The Markov chain: counts by hand, empirical frequencies, and a distribution by enumeration."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError, Sequences, UsageError
from deepcanon.models.autoregressive.markov_chain import MarkovChain

ROWS = torch.randint(3, (6, 40), generator=torch.Generator().manual_seed(0))
FULL = torch.full((6,), 40)


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("smoothing", [None, 0.5, 0.0])
def test_the_probabilities_of_all_sequences_sum_to_one(order: int, smoothing: float | None) -> None:
    """Given the first token, whatever was seen; known and unknown contexts are both among them."""
    rows = torch.tensor([[0, 1, 2, 0, 1, 1], [2, 2, 0, 1, 2, 0]])
    chain = MarkovChain.of(rows, torch.tensor([6, 4]), 3, order, smoothing)
    every = torch.tensor([[1, *rest] for rest in product(range(3), repeat=4)])
    assert float(chain.log_prob(every).exp().sum()) == pytest.approx(1, abs=1e-12)


def test_the_smoothing_is_that_of_witten_and_bell() -> None:
    """In abab the token b follows a twice and nothing else does: by hand."""
    chain = MarkovChain.of(torch.tensor([[0, 1, 0, 1]]), torch.tensor([4]), 2, 1)
    unigram = (2 + 2 * 0.5) / (4 + 2)
    after_a = {1: (2 + 1 * unigram) / (2 + 1), 0: (0 + 1 * unigram) / (2 + 1)}
    found = chain.step_log_probs(torch.tensor([[0, 1], [0, 0]])).exp()
    assert found[:, 1].tolist() == pytest.approx([after_a[1], after_a[0]])
    assert found[:, 0].tolist() == [1, 1]  # the first token is given


@pytest.mark.parametrize("order", [0, 1, 2])
def test_without_smoothing_it_is_the_empirical_conditional_frequencies(order: int) -> None:
    chain = MarkovChain.of(ROWS, FULL, 3, order, smoothing=0.0)
    grams: Counter[tuple[int, ...]] = Counter()
    contexts: Counter[tuple[int, ...]] = Counter()
    for row in ROWS.tolist():
        for end in range(order, 40):
            grams[tuple(row[end - order : end + 1])] += 1
            contexts[tuple(row[end - order : end])] += 1
    logits, _ = chain.step(ROWS[:, :-1], None)
    for row in range(6):
        for end in range(max(order, 1), 40):
            past = tuple(ROWS[row, end - order : end].tolist())
            wanted = [grams[(*past, token)] / contexts[past] for token in range(3)]
            assert logits[row, end - 1].exp().tolist() == pytest.approx(wanted, abs=1e-12)


def test_additive_smoothing_adds_to_every_count() -> None:
    chain = MarkovChain.of(torch.tensor([[0, 1, 0, 1, 1]]), torch.tensor([5]), 3, 1, smoothing=2.0)
    logits, _ = chain.step(torch.tensor([[0, 1, 2]]), None)
    wanted = [[(n + 2) / (sum(row) + 6) for n in row] for row in ([0, 2, 0], [1, 1, 0], [0, 0, 0])]
    torch.testing.assert_close(logits.exp()[0], torch.tensor(wanted, dtype=torch.float64))


def test_batches_in_any_order_count_alike_and_padding_is_never_read() -> None:
    lengths = torch.tensor([40, 7, 2, 1, 30, 12])
    whole = MarkovChain(3, 2, entries=64)
    whole.count(Sequences(ROWS, lengths))
    parts = MarkovChain(3, 2, entries=64)
    padded = ROWS.masked_fill(torch.arange(40) >= lengths.unsqueeze(1), -9)
    for index in ([5, 1], [0], [2, 4, 3]):
        parts.count(Sequences(padded[index], lengths[index]))
    for name, value in whole.state_dict().items():
        assert torch.equal(parts.state_dict()[name], value), name
    with pytest.raises(DataError, match="from 0 to 2"):
        whole.step_log_probs(torch.tensor([[0, 7]]))


def test_generation_follows_the_counts_and_a_state_can_be_read_on_from() -> None:
    chain = MarkovChain.of(torch.tensor([[0, 1, 2, 0, 1, 2, 0]]), torch.tensor([7]), 3, 2, smoothing=0.0)
    assert chain.generate(torch.tensor([[0, 1]]), 5).tolist() == [[0, 1, 2, 0, 1, 2, 0]]
    assert chain.beam_search(torch.tensor([[1, 2]]), 3, beams=2).best()[0].tolist() == [[1, 2, 0, 1, 2]]
    other = MarkovChain.of(ROWS, FULL, 3, 3)
    whole, state = other(ROWS), None
    for part, wanted in zip(ROWS.split([2, 1, 30, 7], 1), whole.split([2, 1, 30, 7], 1), strict=True):
        logits, state = other.step(part, state)
        torch.testing.assert_close(logits, wanted)


def test_sequences_may_be_shorter_than_the_order() -> None:
    chain = MarkovChain.of(torch.tensor([[0, 1, 2, 0, 1]]), torch.tensor([5]), 3, 6)
    lower = MarkovChain.of(torch.tensor([[0, 1, 2, 0, 1]]), torch.tensor([5]), 3, 4)
    x = torch.tensor([[0, 1, 2, 0]])
    torch.testing.assert_close(chain.log_prob(x), lower.log_prob(x))
    assert chain.log_probs_by_order(x[:, :1])[6].tolist() == [[0.0]]
    assert chain.generate(x[:, :1], 9).shape == (1, 10)


def test_too_many_n_grams_are_refused_and_so_is_what_makes_no_sense() -> None:
    with pytest.raises(UsageError, match="more than 4 different n-grams of 2 tokens"):
        MarkovChain(3, 1, entries=4).count(Sequences(ROWS, FULL))
    with pytest.raises(UsageError, match="too many n-grams"):
        MarkovChain(10_000, 5)
    with pytest.raises(UsageError, match="added to every count"):
        MarkovChain(3, 1, smoothing=-1.0)


def test_one_epoch_of_a_run_counts_everything_once(tmp_path: Path) -> None:
    data = dc.data.of(ROWS, lengths=40)
    run = dc.Run.train("markov_chain:order=1,entries=9", data, out=tmp_path / "run", quiet=True, batch_size=2)
    chain = MarkovChain.of(ROWS, FULL, 3, 1)
    assert isinstance(run.model, MarkovChain)
    torch.testing.assert_close(run.model.log_prob(ROWS), chain.log_prob(ROWS))


@pytest.mark.parametrize("settings", [{"epochs": 3}, {"steps": 7}, {"epochs": 1}])
def test_everything_is_counted_once_however_many_epochs_there_are(settings: dict[str, int]) -> None:
    """Batches of 4 of 6 rows: the second batch of the first epoch has 2."""
    chain = MarkovChain(3, order=2)
    data = dc.data.Dataset("rows", "text", Sequences(ROWS, FULL))
    dc.fit(chain, data, batch_size=4, quiet=True, evaluate=False, **settings)  # type: ignore[arg-type]
    wanted = MarkovChain.of(ROWS, FULL, 3, 2)
    assert torch.equal(chain.step_log_probs(ROWS), wanted.step_log_probs(ROWS))
    assert int(chain.counts0.sum()) == ROWS.numel()  # type: ignore[operator]
    dc.fit(chain, data, batch_size=4, quiet=True, evaluate=False)  # another training goes on counting
    assert int(chain.counts0.sum()) == 2 * ROWS.numel()  # type: ignore[operator]
