"""Language models keep their laws with every output layer, and learn as well by a tree or by samples."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon import laws
from deepcanon.catalogue import entries
from deepcanon.core import Captioned, SequencePairs, Sequences
from deepcanon.models._language_model import LanguageModel
from deepcanon.nn.output_by_name import OUTPUT_LAYERS

TRANSFORMERS = ("transformer", "t5", "prefix_lm")
NAMES = [name for name in OUTPUT_LAYERS if name != "softmax"]


def build(name: str, output: str) -> Any:
    torch.manual_seed(0)
    if name == "gpt":
        return dc.find("gpt")(vocab=7, length=8, layers=1, heads=2, embedding=8, output=output)
    if name == "wavenet":
        return dc.find(name)(vocab=7, channels=4, skip=6, layers=2, output=output)
    if name == "caption":
        return dc.find(name)(1, 4, 4, 7, 0, 1, hidden=(4,), embedding=4, units=6, dropout=0.0, output=output)
    if name in TRANSFORMERS:
        return dc.find(name)(5, 7, 0, 1, layers=1, heads=2, embedding=8, output=output)
    if name.startswith("seq2seq"):
        return dc.find(name)(5, 7, 0, 1, embedding=4, units=6, output=output)
    return dc.find(name)(vocab=7, embedding=4, units=6, output=output)


@pytest.mark.parametrize("output", NAMES)
def test_an_lstm_keeps_the_laws_of_sequences(output: str) -> None:
    model = build("lstm", output)
    start = torch.arange(16).unsqueeze(1)
    batch = Sequences((start + torch.arange(7)) % 7, 3 + torch.arange(16) % 5)
    model.prepare([batch])
    found = laws.check((model, batch), "sequence")
    assert all(outcome.holds for outcome in found), laws.report(found)


@pytest.mark.parametrize("name", ["rnn", "gru", "wavenet"])
def test_other_models_have_the_probabilities_of_the_tree(name: str) -> None:
    model = build(name, "hierarchical")
    torch.testing.assert_close(model(torch.tensor([[0, 3, 6]])).exp().sum(-1), torch.ones(1, 3))


@pytest.mark.parametrize("output", ["hierarchical", "nce:samples=4"])
def test_gpt_counts_the_tokens_it_predicts_and_generates_by_exact_probabilities(output: str) -> None:
    model = build("gpt", output)
    x = torch.tensor([[0, 1, 1, 2, 1], [0, 2, 1, 5, 5]])
    model.prepare([Sequences(x, torch.tensor([5, 3]))])
    layer = model.output_layer
    counted = torch.tensor([0, 4, 2, 0, 0, 0, 0])
    if output == "hierarchical":
        assert torch.equal(layer.counts, counted)
    else:
        q = counted.clamp_min(1) ** 0.75
        torch.testing.assert_close(layer.log_q.exp(), q / q.sum())
    torch.testing.assert_close(model(x).exp().sum(-1), torch.ones(2, 5))
    exact = model.eval().loss(Sequences(x, torch.tensor([5, 3])))["nll"]
    torch.testing.assert_close(exact, -model.log_prob(x, lengths=torch.tensor([5, 3])).sum() / 6)
    assert (list(model.train().loss(Sequences(x, torch.tensor([5, 3])))) == ["nll"]) == (output == "hierarchical")


def test_every_language_model_that_learns_by_gradients_takes_any_output_layer() -> None:
    kinds = {entry.name: dc.find(entry.name) for entry in entries()}
    language = {name: signature(cls).parameters for name, cls in kinds.items() if issubclass(cls, LanguageModel)}
    without = {name for name, arguments in language.items() if "output" not in arguments}
    assert without == {"markov_chain"}  # which counts


TARGETS, ENDS = torch.tensor([[0, 3, 3, 2, 1], [0, 2, 1, 9, 9]]), torch.tensor([5, 3])


def pairs(name: str) -> Any:
    """Two targets of five and of three tokens, and what each is written for."""
    if name == "caption":
        return Captioned(torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(0)), TARGETS, ENDS)
    return SequencePairs(torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1]), TARGETS, ENDS)


@pytest.mark.parametrize("output", ["hierarchical", "nce:samples=4"])
@pytest.mark.parametrize("name", ["seq2seq", "seq2seq_attention", "caption", *TRANSFORMERS])
def test_models_of_targets_count_all_their_tokens_and_are_measured_by_exact_probabilities(
    name: str, output: str
) -> None:
    model, batch = build(name, output), pairs(name)
    model.prepare([batch.select(torch.tensor([row])) for row in range(2)])
    counted = torch.tensor([0, 2, 2, 2, 0, 0, 0])
    if output == "hierarchical":
        assert torch.equal(model.output_layer.counts, counted)
    else:
        q = counted.clamp_min(1) ** 0.75
        torch.testing.assert_close(model.output_layer.log_q.exp(), q / q.sum())
    exact = model.eval().loss(batch)["nll"]
    context = model.context_of(batch)
    torch.testing.assert_close(exact, -model.log_prob(TARGETS, lengths=ENDS, context=context).sum() / 6)
    chances = model(*batch.inputs).exp().sum(-1)[:, :3]
    torch.testing.assert_close(chances, torch.ones_like(chances))
    assert (list(model.train().loss(batch)) == ["nll"]) == (output == "hierarchical")


@pytest.mark.slow
@pytest.mark.parametrize("output", ["hierarchical", *(f"{name}:samples=40" for name in NAMES[1:])])
def test_what_is_learned_is_the_distribution_of_the_tokens(output: str) -> None:
    """Independent tokens of known frequencies: the best nats per token are their entropy."""
    p = torch.tensor([0.4, 0.2, 0.15, 0.1, 0.08, 0.05, 0.02])
    x = torch.multinomial(p, 10_000, replacement=True, generator=torch.Generator().manual_seed(0)).view(500, 20)
    lengths = torch.full((500,), 20)
    model = build("lstm", output)
    dc.fit(model, dc.data.of(x, lengths=lengths), quiet=True, epochs=5, batch_size=25, lr=0.03, evaluate=False)
    entropy = float(-(p * p.log()).sum())
    assert dc.evaluate(model, Sequences(x, lengths))["nll"] < entropy + 0.03
