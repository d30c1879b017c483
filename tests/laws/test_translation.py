"""Each law of translation is shown a model that breaks it; a healthy one keeps them all."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from deepcanon.core import Batch, SequencePairs, Terms, UsageError
from deepcanon.core.padding import without_padding
from deepcanon.laws import check, kinds_of, report
from deepcanon.laws import sequence as sequence_laws
from deepcanon.laws import translation as laws
from deepcanon.laws.arguments import optional_arguments_matter
from deepcanon.laws.conditioned import Given
from deepcanon.laws.outcome import Law
from deepcanon.models.recurrent.caption import Caption
from deepcanon.models.recurrent.seq2seq_attention import Seq2SeqAttention


@pytest.mark.slow
def test_a_healthy_model_keeps_the_laws() -> None:
    assert kinds_of(Seq2SeqAttention) == ["contract", "sequence", "translation", "decoding"]
    assert kinds_of(Caption) == ["contract", "sequence", "translation", "decoding"]
    for model, others in ((Seq2SeqAttention, 1), (Caption, 2)):  # laws of images, and of sequences as sources
        found = check(model, "translation")
        assert all(outcome.holds for outcome in found), report(found)
        assert len(found) == len(laws.LAWS) - others


def fails(law: Law, model: Any) -> bool:
    torch.manual_seed(0)
    found = law(*model.example())
    assert found is not None
    return not found.holds


class MeanOfMeans(Seq2SeqAttention):
    """Every target counts alike, however long."""

    def loss(self, batch: SequencePairs) -> Terms:
        log_p = self.log_prob(batch.y, lengths=batch.y_lengths, context=self.context_of(batch))
        return {"nll": -(log_p / (batch.y_lengths - 1)).mean()}


class CountsTheBegin(Seq2SeqAttention):
    """Divides by the lengths, although the begin token is given."""

    def loss(self, batch: SequencePairs) -> Terms:
        return {"nll": super().loss(batch)["nll"] * batch.weight / batch.y_lengths.sum()}


def test_a_loss_that_is_not_in_nats_per_token_is_caught() -> None:
    for mutant in (MeanOfMeans, CountsTheBegin):
        assert fails(laws.loss_is_nll_per_target_token, mutant), mutant
    assert fails(laws.parts_of_pairs_add_up, MeanOfMeans)


class ReadsThePadding(Seq2SeqAttention):
    def source(self, rows: int) -> tuple[Tensor, Tensor]:
        x, lengths = super().source(rows)
        return without_padding(x, lengths), torch.full_like(lengths, x.shape[1])


class ReadsTheFirstToken(Seq2SeqAttention):
    def source(self, rows: int) -> tuple[Tensor, Tensor]:
        x, lengths = super().source(rows)
        return x[:, :1], torch.ones_like(lengths)


class WritesByThePadding(Seq2SeqAttention):
    """The longer the padding, the longer may a translation be."""

    def translate(self, x: Tensor, *, steps: int | None = None, **options: Any) -> tuple[Tensor, Tensor]:
        return super().translate(x, steps=x.shape[1] if steps is None else steps, **options)


def test_a_source_that_is_read_wrongly_is_caught() -> None:
    assert fails(laws.padding_of_the_source_changes_nothing, WritesByThePadding)
    assert fails(laws.padding_of_the_source_changes_nothing, ReadsThePadding)
    assert fails(laws.each_token_of_the_source_is_read, ReadsTheFirstToken)


class ReadsTheMiddle(Caption):
    """The border of an image is cut off."""

    def images(self, rows: int) -> Tensor:
        return pad(super().images(rows)[:, :, 1:-1, 1:-1], (1, 1, 1, 1))


def test_an_image_that_is_read_in_part_is_caught() -> None:
    assert fails(laws.each_pixel_of_the_source_is_read, ReadsTheMiddle)


class AlwaysGreedy(Seq2SeqAttention):
    def translate(self, x: Tensor, *, beams: int = 1, **options: Any) -> tuple[Tensor, Tensor]:
        return super().translate(x, beams=1, **options)


class LosesTheStates(Seq2SeqAttention):
    """The states of the decoder stay where they were when the beams are reordered."""

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs, state = super().read(tokens, state)
        return outputs, _Unordered(state)


class _Unordered:
    def __init__(self, state: Any) -> None:
        self.__dict__.update(vars(getattr(state, "state", state)))
        self.state = getattr(state, "state", state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state, name)

    def select(self, rows: Tensor) -> Any:
        return self.state.select(torch.arange(len(rows)) % len(self.state.hidden))


@pytest.mark.slow
def test_a_search_that_misses_the_most_probable_target_is_caught() -> None:
    for mutant in (AlwaysGreedy, LosesTheStates):
        assert fails(laws.a_wide_beam_finds_the_most_probable_target, mutant), mutant
    outcome = optional_arguments_matter(*AlwaysGreedy.example())
    assert outcome is not None
    assert "translate ignores beams" in outcome.detail


class NeverEnds(Seq2SeqAttention):
    """The end token is ruled out after the fact, so that probabilities no longer sum to 1."""

    def step_log_probs(self, x: Tensor, **options: Any) -> Tensor:
        found = super().step_log_probs(x, **options)
        return found.masked_fill(x == self.end_token, -100)


class ReadsAhead(Seq2SeqAttention):
    """The whole target is seen at each of its tokens."""

    def outputs(self, tokens: Tensor) -> Tensor:
        found = super().outputs(tokens)
        return found + found.mean(1, keepdim=True)


def test_a_target_that_is_read_ahead_is_caught() -> None:
    found = sequence_laws.check_sequence(*ReadsAhead.example())
    assert {outcome.law for outcome in found if not outcome.holds} >= {"outputs are causal"}


def test_laws_of_sequences_hold_of_targets_given_a_source() -> None:
    model, batch = NeverEnds.example()
    found = sequence_laws.check_sequence(model, batch)
    assert {outcome.law for outcome in found if not outcome.holds} >= {"whole sequences sum to one"}
    healthy, pairs = Seq2SeqAttention.example()
    given = Given(healthy, pairs)
    wanted = healthy.log_prob(pairs.y, lengths=pairs.y_lengths, context=(pairs.x[:1], pairs.lengths[:1]))
    assert torch.equal(given.log_prob(pairs.y, lengths=pairs.y_lengths), wanted)


def test_the_kind_needs_pairs() -> None:
    with pytest.raises(UsageError, match="is checked on SequencePairs"):
        laws.check_translation(nn.Identity(), Batch(torch.zeros(2, 2)))  # type: ignore[arg-type]
