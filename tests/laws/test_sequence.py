"""Each law of sequence models is shown a model that breaks it; healthy ones keep them all, torch's among them."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon.core import AnyBatch, Batch, LabeledSequences, Sequences, Terms, UsageError
from deepcanon.core.padding import without_padding
from deepcanon.decoding.next_token import next_token_nats
from deepcanon.laws import check, report
from deepcanon.laws import sequence as laws
from deepcanon.laws.outcome import Law
from deepcanon.models.recurrent._recurrent import State
from deepcanon.models.recurrent.lstm import LSTM
from deepcanon.models.recurrent.lstm_predictor import LSTMPredictor


def values(rows: int = 6, length: int = 5, features: int = 3) -> Tensor:
    return torch.randn(rows, length, features, generator=Generator().manual_seed(0))


class Labels(LSTMPredictor):
    """A class at every position."""

    @classmethod
    def example(cls) -> Any:
        x = values()
        lengths = torch.tensor([5, 3, 2, 5, 4, 1])
        y = (x[..., 0].cumsum(1) > 0).long()
        return cls(features=3, classes=2, every_position=True, units=4), LabeledSequences(x, y, lengths)


class Levels(LSTMPredictor):
    """Real targets at every position, of tokens."""

    @classmethod
    def example(cls) -> Any:
        x = torch.randint(4, (6, 5), generator=Generator().manual_seed(0))
        y = x.cumsum(1).unsqueeze(2).float()
        model = cls(vocab=4, targets=1, every_position=True, embedding=3, units=4)
        return model, LabeledSequences(x, y, torch.tensor([5, 3, 2, 5, 4, 1]))


class Coupled(LSTM):
    @classmethod
    def example(cls) -> Any:
        return cls(vocab=5, embedding=4, units=6, coupled=True, peepholes=True), super().example()[1]


def last_first() -> Any:
    return nn.LSTM(3, 4, 2), Batch(values())


def gru() -> Any:
    return nn.GRU(3, 4, 2, batch_first=True, dropout=0.5), Batch(values())


def convolution() -> Any:
    """No deepcanon model and no recurrent net: a causal convolution, which takes no lengths."""

    class Causal(nn.Module):
        causal = True

        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Conv1d(3, 2, 3)

        def forward(self, x: Tensor) -> Tensor:
            kept: Tensor = self.net(nn.functional.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)
            return kept

    return Causal(), Batch(values())


@pytest.mark.parametrize(
    ("model", "count"),
    [(LSTM, 12), (Coupled, 12), (LSTMPredictor, 4), (Labels, 6), (Levels, 6), (last_first, 5), (gru, 5),
     (convolution, 3)],
)  # fmt: skip
def test_healthy_models_keep_the_laws(model: Any, count: int) -> None:
    torch.manual_seed(0)
    found = check(model, "sequence")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == count


def fails(law: Law, make: Any) -> bool:
    torch.manual_seed(0)
    found = law(*(make.example() if hasattr(make, "example") else make()))
    assert found is not None
    return not found.holds


class BothWays(LSTMPredictor):
    """Reads in both directions and is declared causal."""

    causal = True

    @classmethod
    def example(cls) -> Any:
        model = cls(features=3, classes=2, every_position=True, units=4, bidirectional=True)
        return model, Labels.example()[1]


class LooksAhead(LSTM):
    """The vector of the next token enters, as where a mask is aligned wrongly by one."""

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        logits, state = super().read(tokens, state)
        return logits + torch.cat([logits[:, 1:], logits[:, :1]], 1), state


class MultipliesByZero(Labels):
    """What comes later enters with the factor zero, through which NaN passes."""

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return super().forward(x, lengths) + 0 * x.sum((1, 2), keepdim=True)


def test_what_depends_on_the_future_is_caught() -> None:
    for mutant in (BothWays, LooksAhead, MultipliesByZero):
        assert fails(laws.outputs_are_causal, mutant), mutant
    assert laws.outputs_are_causal(nn.LSTM(3, 4, bidirectional=True), Batch(values())) is None  # nor is it declared so


class LateByOne(LSTM):
    """The output at each position is that before the position."""

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        logits, state = super().read(tokens, state)
        return torch.cat([torch.zeros_like(logits[:, :1]), logits[:, :-1]], 1), state


def test_a_position_that_is_not_read_is_caught() -> None:
    assert fails(laws.each_position_is_read, LateByOne)


class LeavesThePadding(LSTMPredictor):
    """Takes the last position in place of the last that counts."""

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return super().forward(x)


class LearnsFromThePadding(Labels):
    """Nothing of the padding is said, yet NaN reaches the gradients: zero times NaN."""

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return super().forward(x)


class CountsThePadding(LSTM):
    """The mean is over all positions, padding included."""

    def loss(self, batch: Sequences) -> Terms:
        x = without_padding(batch.x, batch.lengths)
        full = torch.full_like(batch.lengths, batch.x.shape[1])
        return {"nll": next_token_nats(self(x[:, :-1]), x, full).mean()}


class DividesByThePadding(LSTM):
    """Padding adds nothing to the sum, but its positions are counted."""

    def loss(self, batch: Sequences) -> Terms:
        return {"nll": next_token_nats(self(batch.x[:, :-1]), batch.x, batch.lengths).mean()}


def test_padding_that_is_seen_is_caught() -> None:
    for mutant in (LeavesThePadding, LearnsFromThePadding):
        assert fails(laws.padding_values_change_nothing, mutant), mutant
    for counting in (LeavesThePadding, CountsThePadding, DividesByThePadding):
        assert fails(laws.more_padding_changes_nothing, counting), counting


class CentersTheBatch(LSTMPredictor):
    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return super().forward(x - x.mean(0), lengths)


class CarriesTheStateOn(nn.LSTM):
    """Begins each row with the state of the row before it."""

    @classmethod
    def example(cls) -> Any:
        return cls(3, 4, batch_first=True), Batch(values())

    def forward(self, x: Any, state: Any = None) -> Any:
        _, state = super().forward(x)
        return super().forward(x, tuple(part.roll(1, 1) for part in state))


class RowsAndPositionsSwapped(nn.Module):
    """Reads down the rows: the layers take positions first, and the input is not transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LSTM(3, 4)

    @classmethod
    def example(cls) -> Any:
        return cls(), Batch(values())

    def forward(self, x: Tensor) -> Tensor:
        said: Tensor = self.net(x)[0]
        return said


def test_sequences_that_mix_are_caught() -> None:
    for mutant in (CentersTheBatch, CarriesTheStateOn, RowsAndPositionsSwapped, LeavesThePadding):
        assert fails(laws.sequences_do_not_mix, mutant), mutant


class MeanOfMeans(LSTM):
    """Every sequence counts alike, however long: the mean of the rows' means."""

    def loss(self, batch: Sequences) -> Terms:
        nats = next_token_nats(self(batch.x[:, :-1]), batch.x, batch.lengths)
        return {"nll": (nats.sum(1) / (batch.lengths - 1)).mean()}


class Sums(LSTM):
    def loss(self, batch: Sequences) -> Terms:
        return {"nll": super().loss(batch)["nll"] * len(batch)}


def test_a_loss_whose_parts_do_not_add_up_is_caught() -> None:
    for mutant in (MeanOfMeans, Sums):
        assert fails(laws.parts_of_a_batch_add_up, mutant), mutant


class InBits(LSTM):
    def loss(self, batch: Sequences) -> Terms:
        return {"nll": super().loss(batch)["nll"] / 0.6931}


class CountsTheFirst(LSTM):
    """Divides by the lengths, although the first token is given."""

    def loss(self, batch: Sequences) -> Terms:
        return {"nll": super().loss(batch)["nll"] * batch.weight / batch.lengths.sum()}


class ForgetsTheLengths(LSTM):
    def log_prob(self, x: Tensor, *, lengths: Tensor | None = None, **options: Any) -> Tensor:
        return super().log_prob(x if lengths is None else without_padding(x, lengths))


def test_a_loss_that_is_not_in_nats_per_token_is_caught() -> None:
    for mutant in (InBits, CountsTheFirst, MeanOfMeans, ForgetsTheLengths):
        assert fails(laws.loss_is_nll_per_token, mutant), mutant


class NotNormalized(LSTM):
    def log_prob(self, x: Tensor, **options: Any) -> Tensor:
        return super().log_prob(x, **options) + 0.01


class SkipsTheLast(LSTM):
    """The last token is never judged."""

    def log_prob(self, x: Tensor, **options: Any) -> Tensor:
        return super().log_prob(x[:, :-1])


@pytest.mark.slow
def test_probabilities_that_do_not_sum_to_one_are_caught() -> None:
    for mutant in (NotNormalized, SkipsTheLast):
        assert fails(laws.continuations_sum_to_one, mutant), mutant


class JudgesThePadding(LSTM):
    """What comes after the end counts."""

    def log_prob(self, x: Tensor, *, lengths: Tensor | None = None, **options: Any) -> Tensor:
        return super().log_prob(x if lengths is None else without_padding(x, lengths), **options)


class PerToken(LSTM):
    """Long sequences are not less probable than short ones."""

    def log_prob(self, x: Tensor, *, lengths: Tensor | None = None, **options: Any) -> Tensor:
        steps = x.shape[1] - 1 if lengths is None else lengths - 1
        return super().log_prob(x, lengths=lengths, **options) / steps


def test_whole_sequences_that_do_not_sum_to_one_are_caught() -> None:
    for mutant in (JudgesThePadding, PerToken, NotNormalized):
        assert fails(laws.whole_sequences_sum_to_one, mutant), mutant


class LosesItsState(LSTM):
    """Generates every token from the one before it alone."""

    def generate(self, prompt: Tensor, steps: int, **options: Any) -> Tensor:
        for _ in range(steps):
            prompt = torch.cat([prompt, super().generate(prompt[:, -1:], 1, **options)[:, -1:]], 1)
        return prompt


class AlwaysWarm(LSTM):
    def generate(self, prompt: Tensor, steps: int, *, temperature: float = 1.0, **options: Any) -> Tensor:
        return super().generate(prompt, steps, temperature=1.3 * temperature, **options)


class NeverTheLikeliest(LSTM):
    """Temperature 0 draws as 1 does."""

    def generate(self, prompt: Tensor, steps: int, *, temperature: float = 1.0, **options: Any) -> Tensor:
        return super().generate(prompt, steps, temperature=temperature or 1.0, **options)


def test_generation_by_other_probabilities_is_caught() -> None:
    for mutant in (LosesItsState, AlwaysWarm):
        assert fails(laws.generated_tokens_follow_the_distribution, mutant), mutant
    for other in (LosesItsState, NeverTheLikeliest):
        assert fails(laws.greedy_decoding_takes_the_likeliest_token, other), other


@pytest.mark.parametrize("batch", [Batch(torch.zeros(4, 3)), Batch(torch.zeros(4, 3, 2, dtype=torch.long))])
def test_the_kind_needs_sequences(batch: AnyBatch) -> None:
    with pytest.raises(UsageError, match=r"whole numbers, \(B, T\), or real numbers"):
        laws.check_sequence(nn.Identity(), batch)


class SumsOtherwise(LSTM):
    """The likelihood of a sequence leaves out its second token."""

    def log_prob(self, x: Tensor, **options: Any) -> Tensor:
        return self.step_log_probs(x, **options)[:, 2:].sum(1)


class StepsKnowTheFuture(LSTM):
    """Each step is moved by the tokens of the whole row."""

    def step_log_probs(self, x: Tensor, **options: Any) -> Tensor:
        return super().step_log_probs(x, **options) - 1e-3 * (x == x[:, -1:]).double().mean(1, keepdim=True)


def test_steps_that_do_not_add_up_or_know_the_future_are_found() -> None:
    for mutant in (SumsOtherwise, StepsKnowTheFuture):
        assert fails(laws.steps_add_up_to_the_sequence, mutant), mutant
    assert not fails(laws.steps_add_up_to_the_sequence, LSTM)
