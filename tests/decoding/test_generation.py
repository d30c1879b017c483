"""Tokens are drawn by the distribution that temperature, top-k and top-p leave, and rows end where they stop."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.decoding.generation import choose, filtered, generate

SHARES = torch.tensor([0.05, 0.4, 0.1, 0.25, 0.2], dtype=torch.float64)


def kept(shares: list[float]) -> Tensor:
    """The distribution after some tokens were ruled out."""
    left = torch.tensor(shares, dtype=torch.float64)
    return left / left.sum()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, SHARES),
        ({"temperature": 0.5}, SHARES**2 / (SHARES**2).sum()),
        ({"temperature": 2.0}, SHARES.sqrt() / SHARES.sqrt().sum()),
        ({"top_k": 1}, kept([0, 1, 0, 0, 0])),
        ({"top_k": 3}, kept([0, 0.4, 0, 0.25, 0.2])),
        ({"top_k": 5}, SHARES),
        ({"top_k": 99}, SHARES),
        ({"top_p": 1.0}, SHARES),
        ({"top_p": 1e-9}, kept([0, 1, 0, 0, 0])),
        ({"top_p": 0.39}, kept([0, 1, 0, 0, 0])),
        ({"top_p": 0.41}, kept([0, 0.4, 0, 0.25, 0])),
        ({"top_p": 0.84}, kept([0, 0.4, 0, 0.25, 0.2])),
        ({"top_p": 0.86}, kept([0, 0.4, 0.1, 0.25, 0.2])),
        # of the two that top-k leaves, the first has the share 0.4 / 0.65 = 0.615
        ({"top_k": 2, "top_p": 0.6}, kept([0, 1, 0, 0, 0])),
        ({"top_k": 2, "top_p": 0.63}, kept([0, 0.4, 0, 0.25, 0])),
        # the squares are 0.16, 0.0625, 0.04, 0.01, 0.0025: the first has the share 0.58
        ({"temperature": 0.5, "top_p": 0.5}, kept([0, 1, 0, 0, 0])),
    ],
)
def test_the_distribution_is_the_closed_form(options: dict[str, float], wanted: Tensor) -> None:
    logits = torch.stack([SHARES.log() + 3, SHARES.log().flip(0) - 7])
    found = filtered(logits, **options).softmax(-1)  # type: ignore[arg-type]
    torch.testing.assert_close(found, torch.stack([wanted, wanted.flip(0)]))


def test_tokens_that_are_equally_likely_are_kept_or_left_together_by_top_k_and_in_order_by_top_p() -> None:
    even = torch.zeros(1, 4)
    assert filtered(even, top_k=2).softmax(-1).tolist() == [[0.25, 0.25, 0.25, 0.25]]
    assert filtered(even, top_p=0.5).softmax(-1).tolist() == [[0.5, 0.5, 0.0, 0.0]]


def test_draws_follow_the_distribution() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = choose(SHARES.log().expand(20000, -1), 0.7, 4, None, generator)
    wanted = torch.where(SHARES > 0.05, SHARES, 0) ** (1 / 0.7)
    counts = drawn.bincount(minlength=5)
    assert counts[0] == 0
    expected = (20000 * wanted / wanted.sum()).numpy()[1:]
    assert chisquare(counts.numpy()[1:], expected).pvalue > 1e-3


def chain(tokens: Tensor, state: None) -> tuple[Tensor, None]:
    """A Markov chain on a circle that goes one or two on."""
    shares = torch.zeros(*tokens.shape, 6).scatter_(-1, (tokens.unsqueeze(-1) + 1) % 6, 0.75)
    return shares.scatter_(-1, (tokens.unsqueeze(-1) + 2) % 6, 0.25).log(), state


def test_each_token_is_drawn_given_the_one_before_it() -> None:
    found = generate(chain, None, torch.zeros(3000, 1, dtype=torch.long), 4, generator=torch.Generator().manual_seed(1))
    jumps = np.array([(b - a) % 6 for a, b in pairwise(found.T)]).ravel()
    assert set(jumps) == {1, 2}
    assert np.mean(jumps == 1) == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / len(jumps)) ** 0.5)


def test_the_prompt_is_read_once_and_then_one_token_at_a_time() -> None:
    read: list[int] = []

    def watched(tokens: Tensor, state: None) -> tuple[Tensor, None]:
        read.append(tokens.shape[1])
        return chain(tokens, None)[0], state

    prompt = torch.tensor([[3, 4, 5], [0, 0, 0]])
    found = generate(watched, None, prompt, 4, temperature=0)
    assert found.tolist() == [[3, 4, 5, 0, 1, 2, 3], [0, 0, 0, 1, 2, 3, 4]]
    assert read == [3, 1, 1, 1]
    assert torch.equal(generate(watched, None, prompt, 0), prompt)


def test_a_row_that_stopped_is_filled_with_the_stop_token() -> None:
    read: list[int] = []

    def watched(tokens: Tensor, state: None) -> tuple[Tensor, None]:
        read.append(tokens.shape[1])
        return chain(tokens, None)[0], state

    prompt = torch.tensor([[1], [5], [2]])
    found = generate(watched, None, prompt, 9, temperature=0, stop=3)
    assert found.tolist() == [[1, 2, *[3] * 8], [5, 0, 1, 2, *[3] * 6], [2, *[3] * 9]]
    assert len(read) == 4, "nothing is read once all rows have stopped"
    in_the_prompt = generate(chain, None, torch.tensor([[3]]), 2, temperature=0, stop=3)
    assert in_the_prompt.tolist() == [[3, 4, 5]], "a stop token of the prompt ends nothing"


def test_the_generator_alone_decides_and_what_comes_back_is_a_plain_tensor() -> None:
    prompt = torch.zeros(4, 1, dtype=torch.long)
    before = torch.get_rng_state()
    one, two, other = (generate(chain, None, prompt, 20, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.get_rng_state())
    one += 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -1.0}, "temperature must be 0"),
        ({"temperature": float("nan")}, "temperature must be 0"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 0.0}, "top_p is a probability"),
        ({"top_p": 1.5}, "top_p is a probability"),
        ({"steps": -1}, "steps must be at least 0"),
        ({"prompt": torch.zeros(1, 0, dtype=torch.long)}, "a prompt is a batch of rows"),
        ({"prompt": torch.zeros(3, dtype=torch.long)}, "a prompt is a batch of rows"),
        ({"prompt": torch.zeros(1, 3)}, "a prompt is a batch of rows"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"prompt": torch.zeros(1, 1, dtype=torch.long), "steps": 1} | options
    with pytest.raises(UsageError, match=words):
        generate(chain, None, **arguments)  # type: ignore[arg-type]
