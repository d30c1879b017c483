"""The engine of language models, by a model whose probabilities are a table and one with another output layer."""

from collections.abc import Callable
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from deepcanon.core import DataError, Sequences, UsageError
from deepcanon.laws import check, report
from deepcanon.models._language_model import LanguageModel
from deepcanon.models.attention.gpt import GPT
from deepcanon.models.recurrent.lstm import LSTM


class Last:
    """The state of a bigram model: nothing."""

    def select(self, rows: Tensor) -> "Last":
        return self


class Bigram(LanguageModel[Sequences]):
    """The next token depends on the last one alone."""

    def __init__(self, vocab: int) -> None:
        super().__init__(vocab)
        self.table = nn.Parameter(torch.randn(vocab, vocab, generator=torch.Generator().manual_seed(0)))

    def read(self, tokens: Tensor, state: Last | None) -> tuple[Tensor, Last]:
        return self.table[tokens], Last()

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        x = torch.randint(4, (8, 6), generator=torch.Generator().manual_seed(1))
        return cls(4), Sequences(x, 2 + torch.arange(8) % 5)


class Tree(Bigram):
    """Two binary decisions lead to each of four tokens: an output layer without dense logits."""

    def __init__(self, vocab: int) -> None:
        super().__init__(vocab)
        self.table = nn.Parameter(torch.randn(vocab, 3, generator=torch.Generator().manual_seed(0)))

    def nats(self, outputs: Tensor, tokens: Tensor) -> Tensor:
        high, low = tokens // 2, tokens % 2
        second = outputs[..., 1:].gather(2, high.unsqueeze(2)).squeeze(2)
        return -(logsigmoid(outputs[..., 0] * (1 - 2 * high)) + logsigmoid(second * (1 - 2 * low)))

    def logits(self, outputs: Tensor) -> Tensor:
        first, left, right = outputs.unbind(2)
        pairs = [logsigmoid(a) + logsigmoid(b) for a, b in ((first, left), (first, -left))]
        pairs += [logsigmoid(-first) + logsigmoid(b) for b in (right, -right)]
        return torch.stack(pairs, 2)


@pytest.mark.parametrize("model", [Bigram, Tree])
def test_any_network_and_any_output_layer_keep_the_laws(model: Any) -> None:
    found = check(model, "sequence")
    assert all(outcome.holds for outcome in found), report(found)
    assert {outcome.law for outcome in found} >= {"continuations sum to one", "whole sequences sum to one"}


def test_each_step_has_its_log_probability() -> None:
    model, _ = Bigram.example()
    x = torch.tensor([[0, 1, 3, 2], [2, 2, -1, 9]])
    lengths = torch.tensor([4, 2])
    log_p = model.table.detach().log_softmax(1)
    wanted = torch.tensor([[log_p[0, 1], log_p[1, 3], log_p[3, 2]], [log_p[2, 2], 0, 0]])
    torch.testing.assert_close(model.step_log_probs(x, lengths=lengths), nn.functional.pad(wanted, (1, 0)))
    torch.testing.assert_close(model.log_prob(x, lengths=lengths), wanted.sum(1))
    torch.testing.assert_close(model.loss(Sequences(x, lengths))["nll"], -wanted.sum() / 4)
    assert model.log_prob(x[:, :1]).tolist() == [0, 0]  # the first token is given


@pytest.mark.parametrize("model", [LSTM, GPT, Bigram])
def test_padding_is_anything_and_other_tokens_are_in_the_vocabulary(model: Any) -> None:
    made, batch = model.example()
    x, lengths = batch.x, batch.lengths.clamp_max(batch.x.shape[1] - 1)
    dirty = torch.where(torch.arange(x.shape[1]) < lengths.unsqueeze(1), x, -1)
    with torch.no_grad():
        assert torch.equal(made.log_prob(dirty, lengths=lengths), made.log_prob(x, lengths=lengths))
        assert torch.equal(made.loss(Sequences(dirty, lengths))["nll"], made.loss(Sequences(x, lengths))["nll"])
    for strange in (-1, made.vocab):
        wrong = x.clone()
        wrong[3, 1] = strange
        data = Sequences(wrong, lengths)
        given: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
            (made.loss, (data,)), (made.prepare, ([data],)), (made.log_prob, (wrong,)), (made, (wrong,)),
            (made.generate, (wrong, 2)),
        ]  # fmt: skip
        for method, arguments in given:
            with pytest.raises(DataError, match=f"got {strange} at position 1 of row 3"):
                method(*arguments)


def test_arguments_that_mean_nothing_are_refused() -> None:
    model, batch = Bigram.example()
    with pytest.raises(UsageError, match="is not a conditional model and takes no context"):
        model.log_prob(batch.x, context=batch.lengths)
    with pytest.raises(UsageError, match="is not a conditional model and takes no context"):
        model.generate(batch.x, 1, context=batch.lengths)
    with pytest.raises(UsageError, match="is exact and draws nothing; leave out samples"):
        model.log_prob(batch.x, samples=3)
    with pytest.raises(DataError, match="lengths from 1 to 6; got from 2 to 7"):
        model.log_prob(batch.x, lengths=torch.full((8,), 7).index_fill(0, torch.tensor([0]), 2))
