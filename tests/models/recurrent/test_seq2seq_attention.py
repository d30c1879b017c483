"""Seq2seq with attention is the paper's by hand, a distribution over targets, and aligns dates as they are written."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import deepcanon as dc
from deepcanon.core import DataError, SequencePairs, UsageError
from deepcanon.data.sets.dates import MONTHS, SOURCE, TARGET
from deepcanon.models.recurrent.seq2seq_attention import Seq2SeqAttention
from deepcanon.nn.attention_scores import ScoreKind, Weighting
from deepcanon.runs.folder import RunFolder
from tests.processes import done, killed, together

BEGIN, END = 0, 1


def model(vocab: int = 5, target_vocab: int = 3, seed: int = 0) -> Seq2SeqAttention:
    torch.manual_seed(seed)
    made = Seq2SeqAttention(vocab, target_vocab, BEGIN, END, embedding=3, units=4, score_units=5).double().eval()
    for parameter in made.parameters():
        parameter.data.mul_(2)
    return made


def sources() -> tuple[Tensor, Tensor]:
    x = torch.randint(5, (3, 6), generator=torch.Generator().manual_seed(1))
    return x, torch.tensor([6, 1, 4])


def test_log_prob_is_the_papers_step_by_step() -> None:
    ours, (x, lengths) = model(target_vocab=6), sources()
    y = torch.tensor([[0, 3, 4, 1, 0], [0, 2, 1, 0, 0], [0, 5, 5, 2, 1]])
    y_lengths = torch.tensor([4, 3, 5])
    gru = nn.GRU(3, 4, bidirectional=True, batch_first=True).double()
    ahead, back = ours.encoder.forward_layers[0], ours.encoder.backward_layers[0]
    for name, weight in ahead.named_parameters():
        gru.get_parameter(name).data.copy_(weight)
    for name, weight in back.named_parameters():
        gru.get_parameter(f"{name}_reverse").data.copy_(weight)
    packed, final = gru(pack_padded_sequence(ours.source_embedding(x), lengths, batch_first=True, enforce_sorted=False))
    h, _ = pad_packed_sequence(packed, batch_first=True)
    weights, wanted = ours.alignment(x, y, lengths=lengths, y_lengths=y_lengths), []
    v, w, u = ours.scoring.align, ours.scoring.query, ours.scoring.key
    for row in range(3):
        s, log_p = (ours.bridge.weight @ final[1, row] + ours.bridge.bias).tanh(), torch.zeros(())
        for t in range(1, int(y_lengths[row])):
            before = ours.target_embedding.weight[y[row, t - 1]]
            seen = h[row, : lengths[row]]
            e = torch.stack([v.weight[0] @ (w.weight @ s + u.weight @ one + u.bias).tanh() for one in seen])
            alpha = e.exp() / e.exp().sum()
            torch.testing.assert_close(weights[row, t - 1, : lengths[row]], alpha, rtol=0, atol=1e-12)
            assert not bool(weights[row, t - 1, lengths[row] :].any())
            c = alpha @ seen
            s = ours.cell(torch.cat([before, c]), s)
            logits = ours.head.weight @ torch.cat([s, c, before]) + ours.head.bias
            log_p = log_p + logits[y[row, t]] - logits.logsumexp(0)
        wanted.append(log_p)
    found = ours.log_prob(y, lengths=y_lengths, context=(x, lengths))
    torch.testing.assert_close(found, torch.stack(wanted), rtol=0, atol=1e-12)
    batch = SequencePairs(x, lengths, y, y_lengths)
    torch.testing.assert_close(ours.loss(batch)["nll"], -torch.stack(wanted).sum() / 9, rtol=0, atol=1e-12)


@pytest.mark.parametrize("score", get_args(ScoreKind))
@pytest.mark.parametrize("how", ["soft", "hard", "linear"])
def test_any_score_aligns_each_target_token_with_the_source(score: ScoreKind, how: Weighting) -> None:
    """The alignment of a token is what the score says of the state before it, by hand."""
    torch.manual_seed(0)
    ours = Seq2SeqAttention(5, 6, BEGIN, END, embedding=3, units=4, score=score, how=how).double().eval()
    x, lengths = sources()
    y = torch.tensor([[0, 3, 4, 1], [0, 2, 1, 0], [0, 5, 5, 1]])
    found = ours.alignment(x, y, lengths=lengths)
    assert found.shape == (3, 3, 6)
    inside = (torch.arange(6) < lengths.unsqueeze(1)).unsqueeze(1).expand_as(found)
    assert not bool(found[~inside].any())
    state = ours.given((x, lengths))._encoded(3)
    ahead, back = state.annotations.chunk(2, 2)
    keys = ahead + back if score in ("dot", "cosine", "scaled") else state.annotations
    e = ours.scoring(state.hidden.unsqueeze(1), keys).masked_fill(~inside[:, :1], -torch.inf)
    wanted = {
        "soft": e.softmax(2),
        "hard": (e == e.amax(2, keepdim=True)).double(),
        "linear": e.masked_fill(~inside[:, :1], 0),
    }
    torch.testing.assert_close(found[:, :1], wanted[how])
    ours.loss(SequencePairs(x, lengths, y, torch.tensor([4, 3, 4])))["nll"].backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in ours.parameters())
    if how == "soft":  # the choice of a score is learned from
        assert all(bool(p.grad.any()) for p in ours.scoring.parameters() if p.grad is not None)


STEPS = 4


def targets(end: int = END) -> list[list[int]]:
    """All targets of up to ``STEPS`` tokens after the begin token, complete or not."""
    rows = set()
    for row in product(range(3), repeat=STEPS):
        rows.add((BEGIN, *row[: row.index(end) + 1 if end in row else STEPS]))
    return [list(row) for row in sorted(rows)]


def log_probs(ours: Seq2SeqAttention, x: Tensor, lengths: Tensor) -> Tensor:
    rows = targets()
    y = torch.tensor([row + [-1] * (STEPS + 1 - len(row)) for row in rows])
    with torch.no_grad():
        return ours.log_prob(y, lengths=torch.tensor([len(row) for row in rows]), context=(x, lengths))


def test_all_targets_sum_to_one() -> None:
    x, lengths = sources()
    for row in range(3):
        log_p = log_probs(model(), x[row : row + 1], lengths[row : row + 1])
        assert float(log_p.exp().sum()) == pytest.approx(1, abs=1e-12)


def test_a_wide_beam_finds_the_enumerated_argmax_and_greedy_the_greedy_one() -> None:
    x, lengths = sources()
    differ = False
    for seed in range(6):
        ours = model(seed=seed)
        tokens, ends = ours.translate(x, lengths=lengths, beams=100, steps=STEPS)
        greedy, greedy_ends = ours.translate(x, lengths=lengths, beams=1, steps=STEPS)
        for row in range(3):
            every = log_probs(ours, x[row : row + 1], lengths[row : row + 1])
            assert tokens[row, : ends[row]].tolist() == targets()[int(every.argmax())]
            prefix = [BEGIN]
            while (len(prefix) <= STEPS and prefix[-1] != END) or len(prefix) == 1:
                logits = ours(x[row : row + 1], lengths[row : row + 1], torch.tensor([prefix]))
                prefix.append(int(logits[0, -1].argmax()))
            assert greedy[row, : greedy_ends[row]].tolist() == prefix
            differ |= prefix != tokens[row, : ends[row]].tolist()
    assert differ, "the search never mattered"


def test_a_context_is_bound_or_given_and_one_row_serves_all() -> None:
    ours, (x, lengths) = model(), sources()
    y = torch.tensor([[0, 2, 1], [0, 0, 1], [0, 1, 1]])
    one = (x[:1], lengths[:1])
    wanted = ours.log_prob(y, context=(x[:1].repeat(3, 1), lengths[:1].repeat(3)))
    assert torch.equal(ours.given(one).log_prob(y), wanted)
    assert torch.equal(ours.log_prob(y, context=one), wanted)
    made = ours.generate(y[:, :1], 3, context=(x, lengths), temperature=0, stop=END)
    tokens, _ = ours.translate(x, lengths=lengths, steps=3)
    assert torch.equal(made[:, : tokens.shape[1]], tokens)
    with pytest.raises(UsageError, match="is conditional: give a source"):
        ours.log_prob(y)
    with pytest.raises(DataError, match="from 0 to 4; got 5 at position 0 of row 0"):
        ours.given((x + 5, lengths))
    with pytest.raises(UsageError, match="tokens, and their lengths; got 3 tensors"):
        ours.given((x, lengths, lengths))


def test_data_that_are_no_pairs_are_refused() -> None:
    ours, (x, lengths) = model(), sources()
    y = torch.tensor([[0, 2, 1], [0, 0, 1], [0, 1, 1]])
    ends = torch.tensor([3, 3, 3])
    ours.prepare([SequencePairs(x, lengths, y, ends)])
    with pytest.raises(DataError, match="every target begins with the token 0; row 2 does with 2"):
        ours.prepare([SequencePairs(x, lengths, torch.tensor([[0, 2, 1], [0, 0, 1], [2, 1, 1]]), ends)])
    with pytest.raises(DataError, match="every target ends with the token 1; row 0 does with 2"):
        ours.prepare([SequencePairs(x, lengths, y, torch.tensor([2, 3, 3]))])
    with pytest.raises(DataError, match="from 0 to 2; got 7 at position 1 of row 0"):
        ours.prepare([SequencePairs(x, lengths, torch.tensor([[0, 7, 1]] * 3), ends)])
    with pytest.raises(UsageError, match="the dot score has no hidden layer, whose width was given"):
        Seq2SeqAttention(5, 3, 0, 1, score="dot", score_units=8)
    with pytest.raises(UsageError, match="score"):
        Seq2SeqAttention(5, 3, 0, 1, score="dots")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="end_token is a token of the target, from 0 to 2"):
        Seq2SeqAttention(5, 3, 0, 3)
    with pytest.raises(UsageError, match="seq2seq_attention learns from pairs of sequences; text gives text"):
        dc.Run.train("seq2seq_attention", "text")
    with pytest.raises(UsageError, match="lstm learns from sequences; dates gives pairs of sequences"):
        dc.Run.train("lstm", "dates")


@pytest.mark.slow
def test_dates_are_translated_and_aligned_as_they_are_written() -> None:
    data = dc.load_data("dates")
    torch.manual_seed(0)
    sizes: Any = data.sizes
    ours = Seq2SeqAttention(**sizes, embedding=16, units=32, score_units=32)
    result = dc.fit(ours, data, steps=300, batch_size=64, lr=1e-2, quiet=True)
    assert result.test["accuracy"] > 0.998
    test = data.split("test")
    y, y_lengths = ours.translate(test.x, lengths=test.lengths)
    right = [
        row[:end] == wanted for row, end, wanted in zip(y.tolist(), y_lengths.tolist(), test.y.tolist(), strict=True)
    ]
    assert sum(right) > 0.99 * len(right)  # whole dates
    few = test.select(torch.arange(100))
    searched, ends = ours.translate(few.x, lengths=few.lengths, beams=2)
    found = [row[:end] for row, end in zip(searched.tolist(), ends.tolist(), strict=True)]
    assert sum(row == wanted for row, wanted in zip(found, few.y.tolist(), strict=True)) >= 97
    looked_at = ours.alignment(test.x, test.y, lengths=test.lengths, y_lengths=test.y_lengths).argmax(-1)
    hits = {digit: 0 for part in DIGITS for digit in part}
    for places, x, length, target in zip(
        looked_at.tolist(), test.x.tolist(), test.lengths.tolist(), test.y.tolist(), strict=True
    ):
        parts = spans(SOURCE.decode(x[:length]), TARGET.decode(target))
        for digits, (begin, end) in zip(DIGITS, parts, strict=True):
            for digit in digits:
                hits[digit] += begin <= places[digit] < end
    assert min(hits.values()) > 0.95 * len(right), hits


DIGITS = ((0, 1, 2, 3), (6,), (9,))
"""Positions of year, month and day in a target; the first digit of a month or day may be a zero that is not written."""


def spans(text: str, target: str) -> list[tuple[int, int]]:
    """Where year, month and day stand in a date as people write it."""
    year, month = target[:4], MONTHS[int(target[5:7]) - 1]
    short = [found.span() for found in re.finditer(r"[0-9]+", text) if len(found.group()) < 4]
    name = re.search(f"{month}|{month[:3]}", text)
    begin = text.index(year)
    return [(begin, begin + 4), short[1] if name is None else name.span(), short[0]]


TRAIN = ["train", "seq2seq_attention", "--data", "dates", "--units", "8", "--steps", "24", "--batch-size", "33",
         "--threads", "1", "--checkpoint-every", "7"]  # fmt: skip


@pytest.mark.slow
def test_a_killed_run_ends_with_the_bits_of_an_unbroken_one_and_translates(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done(*TRAIN, "--out", whole)
    killed(*TRAIN, "--out", broken, step=14)
    assert RunFolder.open(broken).info["status"] == "running"
    request.getfixturevalue("drawn")
    done("resume", broken)
    wanted, found = (RunFolder.open(folder).read_weights() for folder in (whole, broken))
    assert [key for key, value in wanted.items() if not torch.equal(value, found[key])] == []
    scores = RunFolder.open(whole).info["results"]["test"]
    assert dc.Run(broken).evaluate()["test"] == pytest.approx(scores)
    assert (broken / "pictures" / "alignment.png").stat().st_size > 10_000


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    alone, two = tmp_path / "alone", tmp_path / "two"
    done(*TRAIN[:-2], "--optimizer", "sgd", "--out", alone)
    together(*TRAIN[:-2], "--optimizer", "sgd", "--out", two)
    assert RunFolder.open(two).info["environment"]["processes"] == 2
    wanted, found = (RunFolder.open(folder).read_weights() for folder in (alone, two))
    for key, value in wanted.items():
        torch.testing.assert_close(found[key], value, rtol=0, atol=1e-5)
