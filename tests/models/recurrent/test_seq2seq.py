"""Seq2seq is the papers' by hand, knows of a source its thought vector alone, and translates dates."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import deepcanon as dc
from deepcanon.core import SequencePairs, UsageError
from deepcanon.models.recurrent.seq2seq import Seq2Seq
from deepcanon.runs.folder import RunFolder
from tests.processes import done

BEGIN, END = 0, 1


def model(target_vocab: int = 6, layers: int = 1) -> Seq2Seq:
    torch.manual_seed(0)
    made = Seq2Seq(5, target_vocab, BEGIN, END, embedding=3, units=4, layers=layers).double().eval()
    for parameter in made.parameters():
        parameter.data.mul_(2)
    return made


def sources() -> tuple[Tensor, Tensor]:
    x = torch.randint(5, (3, 6), generator=torch.Generator().manual_seed(1))
    return x, torch.tensor([6, 1, 4])


def encoder_of(ours: Seq2Seq, layers: int) -> nn.GRU:
    """torch's own bidirectional layers with the same weights."""
    gru = nn.GRU(3, 4, layers, bidirectional=True, batch_first=True).double()
    for layer in range(layers):
        for each, ending in ((ours.encoder.forward_layers, ""), (ours.encoder.backward_layers, "_reverse")):
            for name, weight in each[layer].named_parameters():
                gru.get_parameter(f"{name[:-1]}{layer}{ending}").data.copy_(weight)
    return gru


@pytest.mark.parametrize("layers", [1, 2])
def test_log_prob_is_the_papers_step_by_step(layers: int) -> None:
    ours, (x, lengths) = model(layers=layers), sources()
    y = torch.tensor([[0, 3, 4, 1, 0], [0, 2, 1, 0, 0], [0, 5, 5, 2, 1]])
    y_lengths = torch.tensor([4, 3, 5])
    packed = pack_padded_sequence(ours.source_embedding(x), lengths, batch_first=True, enforce_sorted=False)
    last = encoder_of(ours, layers)(packed)[1][-2:]  # of both directions of the last layer
    cells = [nn.GRUCell(7 if layer == 0 else 4, 4).double() for layer in range(layers)]
    for layer, cell in enumerate(cells):
        for name, weight in cell.named_parameters():
            weight.data.copy_(ours.decoder.get_parameter(f"{name}_l{layer}"))
    wanted = []
    for row in range(3):
        c = (ours.thought.weight @ torch.cat([last[0, row], last[1, row]]) + ours.thought.bias).tanh()
        torch.testing.assert_close(ours.thoughts(x, lengths=lengths)[row], c, rtol=0, atol=1e-12)
        states, log_p = list((ours.bridge.weight @ c + ours.bridge.bias).tanh().split(4)), torch.zeros(())
        for t in range(1, int(y_lengths[row])):
            before = ours.target_embedding.weight[y[row, t - 1]]
            value = torch.cat([before, c])
            for layer, cell in enumerate(cells):
                value = states[layer] = cell(value, states[layer])
            logits = ours.head.weight @ torch.cat([value, c, before]) + ours.head.bias
            log_p = log_p + logits[y[row, t]] - logits.logsumexp(0)
        wanted.append(log_p)
    found = ours.log_prob(y, lengths=y_lengths, context=(x, lengths))
    torch.testing.assert_close(found, torch.stack(wanted), rtol=0, atol=1e-12)
    batch = SequencePairs(x, lengths, y, y_lengths)
    torch.testing.assert_close(ours.loss(batch)["nll"], -torch.stack(wanted).sum() / 9, rtol=0, atol=1e-12)


def test_sources_with_one_thought_vector_have_one_distribution() -> None:
    """Whatever the source says, targets depend on it through the thought vector."""
    ours, (x, lengths) = model(), sources()
    nn.init.zeros_(ours.thought.weight)
    y = torch.tensor([[0, 3, 4, 1]] * 3)
    found = ours.log_prob(y, context=(x, lengths))
    torch.testing.assert_close(found, found[:1].expand(3))


def test_sizes_are_checked() -> None:
    with pytest.raises(UsageError, match="units must be at least 1"):
        Seq2Seq(5, 3, 0, 1, units=0)
    with pytest.raises(UsageError, match="dropout"):
        Seq2Seq(5, 3, 0, 1, dropout=1.0)


@pytest.mark.slow
def test_dates_are_translated_and_searched(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """By the recipe, though shorter: more than 99 % of the test dates are right to the last digit."""
    request.getfixturevalue("drawn")
    run = tmp_path / "run"
    done("train", "seq2seq", "--data", "dates", "--epochs", "3", "--threads", "1", "--out", run)
    assert RunFolder.open(run).info["results"]["test"]["exact_match"] > 0.99
    assert (run / "pictures" / "translations.png").stat().st_size > 10_000
    opened = dc.Run(run)
    assert opened.translate("3 october 2021", "sunday, 5 april 1981", exact=True) == ["2021-10-03", "1981-04-05"]
    (first, log_p), *others = opened.most_probable(given="3 october 2021", top=3, exact=True)
    assert first == "2021-10-03"
    assert log_p > -0.5
    assert all(text != first and other < log_p for text, other in others)
