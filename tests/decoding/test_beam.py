"""Beam search finds what enumeration finds where it is wide enough, and what greedy decoding finds where it is one."""

from functools import cache
from itertools import product

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.decoding.beam import beam_search
from deepcanon.interop.hugging_face import load_gpt2
from deepcanon.models.attention.gpt import GPT
from deepcanon.models.recurrent.lstm import LSTM

VOCAB, STEPS, STOP = 3, 4, 2


def model(kind: str = "lstm", seed: int = 3) -> LSTM | GPT:
    torch.manual_seed(seed)
    made: LSTM | GPT = LSTM(vocab=VOCAB, embedding=4, units=8)
    if kind == "gpt":  # its window of 3 tokens moves on during the search
        made = GPT(vocab=VOCAB, length=3, layers=2, heads=2, embedding=8)
    made = made.double().eval()
    for parameter in made.parameters():
        parameter.data.mul_(3)
    return made


@cache
def sequences(first: int, kind: str) -> dict[tuple[int, ...], float]:
    """All sequences of up to ``STEPS`` tokens after the first that stop at ``STOP`` or at the end."""
    found, judge = {}, model(kind)
    for row in product(range(VOCAB), repeat=STEPS):
        cut = (first, *row[: row.index(STOP) + 1 if STOP in row else STEPS])
        found[cut] = float(judge.log_prob(torch.tensor([cut])).detach())
    return found


def penalized_scores(found: dict[tuple[int, ...], float], length_penalty: float) -> dict[tuple[int, ...], float]:
    """The log-probabilities by the length penalty of Wu et al.; the first token is the prompt."""
    return {cut: log_p / ((5 + len(cut) - 1) / 6) ** length_penalty for cut, log_p in found.items()}


@pytest.mark.parametrize("kind", ["lstm", "gpt"])
def test_a_wide_beam_finds_all_sequences_in_the_order_of_their_probability(kind: str) -> None:
    prompt = torch.tensor([[0], [1]])
    beams = model(kind).beam_search(prompt, STEPS, beams=40, stop=STOP)
    for row in range(2):
        wanted = sequences(row, kind)
        ranked = sorted(wanted, key=lambda cut: -wanted[cut])
        found = [
            tuple(tokens[:length])
            for tokens, length, score in zip(
                beams.tokens[row].tolist(), beams.lengths[row].tolist(), beams.log_prob[row].tolist(), strict=True
            )
            if score > -torch.inf
        ]
        assert found == ranked
        there = beams.log_prob[row][beams.log_prob[row] > -torch.inf]
        torch.testing.assert_close(there, torch.tensor([wanted[cut] for cut in ranked], dtype=torch.float64))
    assert torch.equal(beams.best()[0], beams.tokens[:, 0])


@pytest.mark.parametrize("kind", ["lstm", "gpt"])
def test_one_beam_is_greedy_decoding(kind: str) -> None:
    prompt = torch.tensor([[0, 1], [1, 1], [2, 0]])
    greedy = model(kind).generate(prompt, 12, temperature=0, stop=STOP)
    tokens, lengths = model(kind).beam_search(prompt, 12, beams=1, stop=STOP).best()
    assert torch.equal(tokens, greedy[:, : tokens.shape[1]])
    for row, length in zip(greedy[:, 2:].tolist(), (lengths - 2).tolist(), strict=True):
        assert length == (row.index(STOP) + 1 if STOP in row else 12)


def test_more_beams_find_what_greedy_decoding_misses() -> None:
    """The likelier first token leads to a dead end: 0.6 * 0.4 < 0.4 * 0.9."""

    class Read:
        def __init__(self, tokens: Tensor) -> None:
            self.tokens = tokens

        def select(self, rows: Tensor) -> "Read":
            return Read(self.tokens[rows])

    after = {(): [0.6, 0.4, 0.0], (0,): [0.3, 0.3, 0.4], (1,): [0.05, 0.05, 0.9]}

    def step(tokens: Tensor, state: Read | None) -> tuple[Tensor, Read]:
        read = tokens if state is None else torch.cat([state.tokens, tokens], 1)
        p = [after[tuple(row[1:])] for row in read.tolist()]
        return torch.tensor(p).log().unsqueeze(1), Read(read)

    start = torch.tensor([[0]])
    narrow, wide = (beam_search(step, start, 2, beams, stop=2) for beams in (1, 2))
    assert narrow.tokens[0, 0].tolist() == [0, 0, 2]
    assert wide.tokens[0, 0].tolist() == [0, 1, 2]
    torch.testing.assert_close(wide.log_prob.exp()[0], torch.tensor([0.36, 0.24]))


@pytest.mark.parametrize("kind", ["lstm", "gpt"])
def test_a_length_penalty_ranks_by_the_score_of_the_paper(kind: str) -> None:
    beams = model(kind).beam_search(torch.tensor([[0]]), STEPS, beams=40, stop=STOP, length_penalty=2.0)
    wanted = sequences(0, kind)
    scores = penalized_scores(wanted, 2.0)
    ranked = sorted(wanted, key=lambda cut: -scores[cut])
    lengths = beams.lengths[0, : len(ranked)].tolist()
    assert [tuple(tokens[:end]) for tokens, end in zip(beams.tokens[0].tolist(), lengths, strict=False)] == ranked
    there = beams.log_prob[0, : len(ranked)]  # without the penalty, as log_prob gives it
    torch.testing.assert_close(there, torch.tensor([wanted[cut] for cut in ranked], dtype=torch.double))
    plain = model(kind).beam_search(torch.tensor([[0]]), STEPS, beams=40, stop=STOP)
    assert beams.lengths[0, :5].sum() > plain.lengths[0, :5].sum()


@pytest.mark.slow
def test_beams_are_those_of_hugging_face_on_the_same_weights() -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers, of deepcanon[oracles]")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=32, n_layer=2, n_head=2, n_embd=16, initializer_range=1.0
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    ours = GPT(11, 32, 2, 2, 16, activation="gelu_tanh").eval()
    load_gpt2(ours, theirs.state_dict())
    prompt = torch.tensor([[1, 2], [3, 4], [5, 5]])
    asked = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 20, "do_sample": False}
    wanted = theirs.generate(
        prompt, **asked, eos_token_id=None, pad_token_id=0, attention_mask=torch.ones_like(prompt),
        return_dict_in_generate=True, output_scores=True, length_penalty=0.0,
    )  # fmt: skip
    found = ours.beam_search(prompt, 20, beams=4)
    assert torch.equal(found.tokens.flatten(0, 1), wanted.sequences)
    torch.testing.assert_close(found.log_prob.flatten(), wanted.sequences_scores, rtol=1e-4, atol=1e-4)


def test_mistakes_are_refused() -> None:
    with pytest.raises(UsageError, match="one beam has no sequences of unequal length; leave out length_penalty"):
        model().beam_search(torch.tensor([[0]]), 2, beams=1, stop=STOP, length_penalty=1)
    with pytest.raises(UsageError, match="without a stop token all sequences are equally long"):
        model().beam_search(torch.tensor([[0]]), 2, length_penalty=1)
    with pytest.raises(UsageError, match="beams must be at least 1"):
        model().beam_search(torch.tensor([[0]]), 2, beams=0)
    with pytest.raises(UsageError, match="a prompt is a batch of rows"):
        beam_search(model().step, torch.zeros(1, 0, dtype=torch.long), 2, 1)
