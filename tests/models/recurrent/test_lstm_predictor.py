"""Predictions from the last hidden state are torch's; a sum is remembered over a hundred steps."""

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import deepcanon as dc
from deepcanon.core import DataError, Labeled, LabeledSequences, UsageError
from deepcanon.data import Dataset
from deepcanon.data.load import load_data
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.recurrent.lstm_predictor import LSTMPredictor


def values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_predictions_come_from_the_last_state_of_torchs_lstm() -> None:
    torch.manual_seed(0)
    ours = LSTMPredictor(features=3, classes=4, units=5, layers=2).double()
    theirs = nn.LSTM(3, 5, 2, batch_first=True).double()
    theirs.load_state_dict(ours.recurrent.state_dict())
    x, lengths = values(6, 8, 3), torch.tensor([8, 1, 3, 5, 8, 2])
    _, (h, _) = theirs(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    torch.testing.assert_close(ours(x, lengths), ours.head(h[-1]), rtol=0, atol=1e-12)
    torch.testing.assert_close(ours(x), ours.head(theirs(x)[1][0][-1]), rtol=0, atol=1e-12)


def test_predictions_at_every_position_are_those_of_prefixes() -> None:
    torch.manual_seed(0)
    every = LSTMPredictor(vocab=6, targets=2, every_position=True, embedding=3, units=5).double()
    last = LSTMPredictor(vocab=6, targets=2, embedding=3, units=5).double()
    last.load_state_dict(every.state_dict())
    x = torch.randint(6, (4, 7), generator=torch.Generator().manual_seed(0))
    for position in range(7):
        lengths = torch.full((4,), position + 1)
        torch.testing.assert_close(every(x)[:, position], last(x, lengths), rtol=0, atol=1e-12)


@pytest.mark.parametrize("every_position", [False, True])
def test_a_head_gives_the_likelihood_of_its_distribution_over_all_positions_that_count(every_position: bool) -> None:
    torch.manual_seed(0)
    model = LSTMPredictor(features=3, targets=2, every_position=every_position, units=4, head="log_normal").double()
    x, lengths = values(5, 6, 3), torch.tensor([6, 1, 3, 6, 2])
    y = values(5, 6, 2).exp() if every_position else values(5, 2).exp()
    outputs = model(x, lengths)
    logs = stats.lognorm.logpdf(y, outputs[..., 2:].exp().detach(), scale=outputs[..., :2].exp().detach()).sum(-1)
    counts = (torch.arange(6) < lengths.unsqueeze(1)).numpy()
    expected = -(logs[counts].mean() if every_position else logs.mean())
    if every_position:
        y = y.masked_fill(~torch.from_numpy(counts).unsqueeze(2), -1.0)  # no target of the head, and not looked at
    batch = LabeledSequences(x, y, lengths)
    model.prepare([batch])
    assert model.loss(batch)["nll"].item() == pytest.approx(expected, rel=1e-10)
    assert model.metrics(batch)["nll"].item() == pytest.approx(expected, rel=1e-10)
    torch.testing.assert_close(model.predict(x, lengths, how="mean").shape, y.shape)
    with pytest.raises(DataError, match="models other targets than these"):
        model.prepare([LabeledSequences(x, -y.abs(), lengths)])


@pytest.mark.slow
def test_the_adding_problem_at_length_100_is_solved() -> None:
    data = load_data("adding")
    torch.manual_seed(0)
    model = LSTMPredictor(features=2, targets=1)
    result = dc.fit(model, data, quiet=True, steps=900)
    assert result.test["mse"] < 0.01  # guessing the mean: 0.167


@pytest.mark.slow
def test_the_parity_of_what_was_read_is_predicted_at_every_position() -> None:
    bits = torch.randint(2, (600, 6), generator=torch.Generator().manual_seed(0))
    lengths = 2 + torch.arange(600) % 5
    batch = LabeledSequences(bits, bits.cumsum(1) % 2, lengths)
    data: Dataset[Any] = Dataset(name="parity", kind="sequences", train=batch, sizes={"vocab": 2, "classes": 2})
    torch.manual_seed(0)
    model = LSTMPredictor(vocab=2, classes=2, every_position=True, embedding=4, units=16, memory=None)
    result = dc.fit(model, data, quiet=True, epochs=25, lr=2e-2, batch_size=60)
    assert result.train["accuracy"] == 1.0
    assert result.train["nll"] < 0.1
    assert batch.weight == int(lengths.sum())


def test_mistakes_raise_an_error_of_one_sentence() -> None:
    for sizes, words in (
        ({"classes": 2}, "give either features or vocab"),
        ({"classes": 2, "features": 3, "vocab": 4}, "give either features or vocab"),
        ({"features": 3}, "either classes or targets"),
        ({"features": 3, "classes": 2, "targets": 1}, "either classes or targets"),
        ({"features": 3, "classes": 1}, "classes must be at least 2"),
        ({"features": 0, "classes": 2}, "features must be at least 1"),
    ):
        with pytest.raises(UsageError, match=words):
            LSTMPredictor(**sizes)  # type: ignore[arg-type]
    model = LSTMPredictor(features=3, classes=2, units=4)
    x, lengths, y = values(4, 5, 3).float(), torch.full((4,), 5), torch.zeros(4, dtype=torch.long)
    with pytest.raises(DataError, match="learns from labeled sequences, got labeled examples"):
        model.prepare([Labeled(x, y)])
    with pytest.raises(DataError, match="build the model with every_position=True"):
        model.prepare([LabeledSequences(x, y.unsqueeze(1).expand(-1, 5), lengths)])
    with pytest.raises(DataError, match=r"shape \(B, T, 3\), real numbers; got torch.float32 of \(4, 5, 2\)"):
        model(x[..., :2])
    with pytest.raises(UsageError, match="mlp learns from labeled examples; adding gives labeled sequences"):
        dc.fit(MLP(2, targets=1), load_data("adding"), quiet=True, steps=1)


@pytest.mark.parametrize("every_position", [False, True])
def test_both_directions_are_torchs_on_packed_sequences(every_position: bool) -> None:
    torch.manual_seed(0)
    model = LSTMPredictor(features=3, classes=4, units=5, layers=2, bidirectional=True, every_position=every_position)
    model = model.double().eval()
    assert not model.causal
    theirs = nn.LSTM(3, 5, 2, bidirectional=True, batch_first=True).double()
    ours: Any = model.recurrent
    for depth in range(2):
        for suffix, layers in (("", ours.forward_layers), ("_reverse", ours.backward_layers)):
            for name, weight in layers[depth].named_parameters():
                theirs.get_parameter(f"{name.removesuffix('_l0')}_l{depth}{suffix}").data.copy_(weight)
    x, lengths = torch.randn(4, 6, 3, dtype=torch.float64), torch.tensor([6, 1, 4, 3])
    packed, (h, _) = theirs(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    outputs, _ = pad_packed_sequence(packed, batch_first=True)
    inside = torch.arange(6) < lengths.unsqueeze(1)
    x = x.masked_fill(~inside.unsqueeze(2), torch.nan)
    hidden = outputs[inside] if every_position else torch.cat([h[-2], h[-1]], 1)
    found = model(x, lengths)[inside] if every_position else model(x, lengths)
    torch.testing.assert_close(found, model.head(hidden), rtol=0, atol=1e-12)
